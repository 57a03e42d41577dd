"""Kiln as a backend of ``torch.compile``: ``torch.compile(model, backend="kiln", dynamic=True)``.

The graphs that PyTorch captures, forward and backward, are converted to Kiln's with symbolic sizes: one compilation
serves all sizes that PyTorch's guards allow. Parameters and inputs are shared without copying. A graph with an operator
that Kiln does not support is run by PyTorch as a whole, and counted: :func:`explain` lists them with the reasons::

    compiled = torch.compile(model, backend="kiln", dynamic=True)
    y = compiled(x)
    print(kiln.torch.explain())

``options`` of ``torch.compile`` are the keyword arguments of :func:`kiln.load`, such as ``{"threads": 2}``.
"""

from __future__ import annotations

from ._account import counters, explain, reset
from ._backend import backend

__all__ = ["backend", "counters", "explain", "reset"]
