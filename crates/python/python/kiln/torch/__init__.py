"""PyTorch's modules compiled by Kiln: ``torch.compile(model, backend="kiln", dynamic=True)``.

The graphs that PyTorch captures, forward and backward, become Kiln's, with their sizes as symbols: one compile serves all sizes
that PyTorch's guards allow. Parameters and inputs are shared without a copy. A graph with an operator that Kiln does not have is
run by PyTorch, as a whole, and counted: :func:`explain` says which, and why::

    compiled = torch.compile(model, backend="kiln", dynamic=True)
    y = compiled(x)
    print(kiln.torch.explain())

``options`` of ``torch.compile`` are the keyword arguments of :func:`kiln.load`, such as ``{"threads": 2}``.
"""

from __future__ import annotations

from ._account import counters, explain, reset
from ._backend import backend

__all__ = ["backend", "counters", "explain", "reset"]
