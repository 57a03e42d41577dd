"""Kiln: a just-in-time compiler for tensor programs whose shapes change from call to call.

A model is compiled on its first call, once for all sizes that its symbols allow::

    import kiln

    model = kiln.load("model.onnx")
    y = model(x)                     # by position: NumPy, PyTorch, JAX, anything with DLPack or the buffer protocol
    outputs = model.run({"x": x})    # by name: a dict of NumPy arrays

Inputs are passed without copying, and must not be modified during the call. Results are read-only NumPy arrays that
share the memory Kiln computed them into (``y.copy()`` is writable); without NumPy they are ``kiln.Tensor``. Calls
release the GIL, so threads can run them in parallel, and Ctrl-C interrupts them.

:func:`jit` compiles a function written in NumPy, and :func:`grad` differentiates it::

    @kiln.jit
    def layer(x, w):
        return np.maximum(x @ w, 0)

``torch.compile(model, backend="kiln", dynamic=True)`` compiles PyTorch modules (``kiln.torch``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._errors import (
    CancelledError,
    Error,
    InternalError,
    InvalidInputError,
    LimitError,
    MachineError,
    ResourceError,
    TracingError,
    UnsupportedError,
)
from ._kiln import Size, Tensor, __version__, devices, tensor
from ._model import Model, Session, Value, load, open_bundle
from ._report import Report

if TYPE_CHECKING:
    from ._array import Array
    from ._control import cond, fori_loop, scan, while_loop
    from ._gradient import Gradient, grad, stop_gradient, value_and_grad
    from ._jit import Jit, jit

# Tracing needs NumPy, so it is imported on first use.
_TRACING = {
    "Array": "_array",
    "Gradient": "_gradient",
    "Jit": "_jit",
    "cond": "_control",
    "fori_loop": "_control",
    "grad": "_gradient",
    "jit": "_jit",
    "scan": "_control",
    "stop_gradient": "_gradient",
    "value_and_grad": "_gradient",
    "while_loop": "_control",
}


def __getattr__(name: str) -> object:
    module = _TRACING.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


__all__ = [
    "Array",
    "CancelledError",
    "Error",
    "Gradient",
    "InternalError",
    "InvalidInputError",
    "Jit",
    "LimitError",
    "MachineError",
    "Model",
    "Report",
    "ResourceError",
    "Session",
    "Size",
    "Tensor",
    "TracingError",
    "UnsupportedError",
    "Value",
    "__version__",
    "cond",
    "devices",
    "fori_loop",
    "grad",
    "jit",
    "load",
    "open_bundle",
    "scan",
    "stop_gradient",
    "tensor",
    "value_and_grad",
    "while_loop",
]
