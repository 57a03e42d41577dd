"""Dispatches NumPy functions that are called with traced arrays."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as _numpy

from .. import _kiln
from .. import numpy as _functions

#: Methods of ufuncs, and the functions that implement them.
_METHODS = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
}


def ufunc(function: Any, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """The result of a ufunc, or of a method of one."""
    name = function.__name__
    if method == "__call__":
        return _called(name, name, inputs, options)
    return _called(_METHODS.get((name, method), ""), f"{name}.{method}", inputs, options)


def function(called: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """The result of any other function."""
    return _called(called.__name__, called.__name__, args, options)


def _called(name: str, shown: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
    found = getattr(_functions, name, None) if name in _functions.__all__ else None
    if not callable(found):
        message = f"traced arrays do not support `numpy.{shown}`; use the functions of `kiln.numpy`"
        raise _kiln.error("unsupported", message)
    # NumPy also passes defaults that the caller did not write.
    given = {key: value for key, value in options.items() if value is not None and value is not _numpy._NoValue}
    if "out" in given:
        message = f"`numpy.{shown}` cannot write into `out`, as traced arrays are immutable; use its result"
        raise _kiln.error("traced", message)
    takes_dtype = "dtype" in inspect.signature(found).parameters
    dtype = None if takes_dtype else given.pop("dtype", None)
    result = found(*args, **given)
    return result if dtype is None else result.astype(dtype)
