"""Sorting, and properties of arrays."""

from __future__ import annotations

from typing import Any

from .._array import Array
from .._promotion import as_float, result_dtype
from ._context import as_array, axis_of
from ._movement import ravel


def _top(x: Any, axis: int, extremum: str) -> tuple[Array, Array]:
    array = as_array(x)
    at = axis_of(array, axis)
    values, indices = array._recording.op("top_k", [array._value], k=array.shape[at], axis=at, extremum=extremum)
    return Array(array._recording, values), Array(array._recording, indices)


def sort(x: Any, axis: int | None = -1) -> Array:
    """The elements in ascending order along an axis."""
    return _top(ravel(x), 0, "min")[0] if axis is None else _top(x, axis, "min")[0]


def argsort(x: Any, axis: int | None = -1) -> Array:
    """The positions of the elements in ascending order along an axis."""
    return _top(ravel(x), 0, "min")[1] if axis is None else _top(x, axis, "min")[1]


def top_k(x: Any, k: Any, axis: int = -1) -> tuple[Array, Array]:
    """The ``k`` largest elements along an axis in descending order, and their positions."""
    array = as_array(x, k)
    values, indices = array._recording.op("top_k", [array._value], k=k, axis=axis_of(array, axis), extremum="max")
    return Array(array._recording, values), Array(array._recording, indices)


def median(x: Any, axis: int | None = None) -> Array:
    """The median; for an even number of elements, the mean of the middle two."""
    array = as_float(as_array(x))
    if axis is None:
        array, axis = ravel(array), 0
    at = axis_of(array, axis)
    ordered = sort(array, at)
    rest = (slice(None),) * at
    size = array.shape[at]
    return (ordered[(*rest, (size - 1) // 2)] + ordered[(*rest, size // 2)]) / 2


def ndim(x: Any) -> int:
    """The number of axes."""
    return as_array(x).ndim


def shape(x: Any) -> tuple[Any, ...]:
    """The sizes, one per axis."""
    return as_array(x).shape


def size(x: Any, axis: int | None = None) -> Any:
    """The size of an axis; the number of elements by default."""
    array = as_array(x)
    return array.size if axis is None else array.shape[axis]


def result_type(*arrays: Any) -> str:
    """The name of the dtype that the arrays promote to."""
    return result_dtype([as_array(array, *arrays)._value.dtype for array in arrays])
