"""Reductions over axes, and cumulative ones."""

from __future__ import annotations

import math
from typing import Any

from .. import _kiln
from .._array import Array, lift
from .._promotion import as_float, kind
from ._context import as_array, axes_of, axis_of
from ._elementwise import abs, maximum, sqrt, square
from ._movement import ravel, reshape


def _reduced(array: Array, function: str, axis: Any, keepdims: bool) -> Array:
    return array._op("reduce", function=function, axes=sorted(axes_of(array, axis)), keep_dims=bool(keepdims))


def _sum_dtype(array: Array, dtype: Any) -> Array:
    """Integers are accumulated in 64 bits, as in NumPy."""
    if dtype is not None:
        return array.astype(dtype)
    name = array._value.dtype
    if kind(name) == 2:
        return array
    return array.astype("uint64" if name.startswith("u") else "int64")


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum over axes; integers are accumulated in 64 bits."""
    return _reduced(_sum_dtype(as_array(x), dtype), "sum", axis, keepdims)


def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over axes; integers are accumulated in 64 bits."""
    return _reduced(_sum_dtype(as_array(x), dtype), "product", axis, keepdims)


def mean(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The mean over axes; that of integers is a float64."""
    array = as_array(x)
    if dtype is not None:
        array = array.astype(dtype)
    elif kind(array._value.dtype) < 2:
        array = array.astype("float64")
    return _reduced(array, "mean", axis, keepdims)


def average(x: Any, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Array:
    """The mean, weighted if weights of the same shape are given."""
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    array = as_array(x, weights)
    return sum(array * weights, axis, keepdims=keepdims) / sum(weights, axis, keepdims=keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The maximum over axes."""
    array = as_array(x)
    return any(array, axis, keepdims) if array._value.dtype == "bool" else _reduced(array, "max", axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The minimum over axes."""
    array = as_array(x)
    return all(array, axis, keepdims) if array._value.dtype == "bool" else _reduced(array, "min", axis, keepdims)


amax = max
amin = min


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The maximum minus the minimum."""
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether any element is true."""
    return _reduced(as_array(x).astype("bool"), "any", axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all elements are true."""
    return _reduced(as_array(x).astype("bool"), "all", axis, keepdims)


def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero."""
    return sum(as_array(x).astype("bool"), axis, keepdims=keepdims)


def var(x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """The variance over axes: the sum of squares is divided by the number of elements minus ``ddof``."""
    array = as_float(as_array(x)) if dtype is None else as_array(x).astype(dtype)
    if kind(as_array(x)._value.dtype) < 2 and dtype is None:
        array = as_array(x).astype("float64")
    squares = square(array - mean(array, axis, keepdims=True))
    if ddof == 0:
        return mean(squares, axis, keepdims=keepdims)
    count: Any = 1
    for one in axes_of(array, axis):
        count = count * array.shape[one]
    n_free = maximum(lift(array._recording, count) - ddof, 0)
    return sum(squares, axis, keepdims=keepdims) / n_free


def std(x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """The square root of `var`."""
    return sqrt(var(x, axis, dtype, ddof, keepdims))


def _arg_extremum(x: Any, axis: Any, keepdims: bool, extremum: str) -> Array:
    array = as_array(x)
    if array._value.dtype == "bool":
        array = array.astype("uint8")
    if axis is not None:
        return array._op("arg_reduce", extremum=extremum, axis=axis_of(array, axis), keep_dims=keepdims)
    found = ravel(array)._op("arg_reduce", extremum=extremum, axis=0, keep_dims=False)
    return reshape(found, [1] * array.ndim) if keepdims else found


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the maximum; of equal elements, the first."""
    return _arg_extremum(x, axis, keepdims, "max")


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the minimum; of equal elements, the first."""
    return _arg_extremum(x, axis, keepdims, "min")


def _cumulative(x: Any, axis: int | None, dtype: Any, function: str) -> Array:
    array = as_array(x)
    if function in ("sum", "product"):
        array = _sum_dtype(array, dtype)
    if axis is None:
        array, axis = ravel(array), 0
    return array._op("cumulate", function=function, axis=axis_of(array, axis))


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Array:
    """The cumulative sum along an axis; by default over all elements in order."""
    return _cumulative(x, axis, dtype, "sum")


def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Array:
    """The cumulative product along an axis; by default over all elements in order."""
    return _cumulative(x, axis, dtype, "product")


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The vector norm, as in ``numpy.linalg.norm``: over all elements by default; of order 1, 2 or infinity."""
    array = as_float(as_array(x))
    if ord in (None, 2, "fro"):
        return sqrt(sum(square(array), axis, keepdims=keepdims))
    if ord == 1:
        return sum(abs(array), axis, keepdims=keepdims)
    if ord == math.inf:
        return max(abs(array), axis, keepdims)
    raise _kiln.error("unsupported", f"norms of order {ord!r}; expected 1, 2 or infinity")
