"""Kiln: a just-in-time compiler for tensor programs whose shapes change from call to call.

A model is compiled when it is first called, once for all sizes that its symbols allow::

    import kiln

    model = kiln.load("model.onnx")
    y = model(x)                     # by position: NumPy, PyTorch, JAX, anything with DLPack or the buffer protocol
    outputs = model.run({"x": x})    # by name: a dict of NumPy arrays

Arrays are passed without a copy, and must not be changed during the call. Results are read-only NumPy arrays over the
memory that Kiln computed them into (``y.copy()`` is your own); without NumPy they are ``kiln.Tensor``. Calls release the interpreter, so threads run
them in parallel, and Ctrl-C ends them.
"""

from __future__ import annotations

from ._errors import (
    CancelledError,
    Error,
    InternalError,
    InvalidInputError,
    LimitError,
    MachineError,
    ResourceError,
    UnsupportedError,
)
from ._kiln import Tensor, __version__, devices, tensor
from ._model import Model, Session, Value, load, open_bundle

__all__ = [
    "CancelledError",
    "Error",
    "InternalError",
    "InvalidInputError",
    "LimitError",
    "MachineError",
    "Model",
    "ResourceError",
    "Session",
    "Tensor",
    "UnsupportedError",
    "Value",
    "__version__",
    "devices",
    "load",
    "open_bundle",
    "tensor",
]
