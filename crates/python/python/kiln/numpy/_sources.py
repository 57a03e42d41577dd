"""Array creation, coordinate grids and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from .. import _kiln
from .._array import Array, lift
from .._promotion import dtype_name
from ._context import as_array, current, lifted, sizes_of
from ._elementwise import where
from ._movement import broadcast_to, expand_dims, moveaxis, reshape
from ._reductions import sum


def asarray(x: Any, dtype: Any = None) -> Array:
    """A value as an array of the function that is being traced: constants are copied."""
    made = lift(current(x), x)
    made = made if dtype is None else made.astype(dtype)
    return Array(made._recording, made._value)


array = asarray


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """An array filled with one value."""
    sizes = sizes_of(shape)
    recording = current(fill_value, *[size for size in sizes if isinstance(size, Array)])
    if dtype is None:
        value = lift(recording, fill_value)._value
    elif isinstance(fill_value, (Array, _kiln.Size)):
        value = lift(recording, fill_value).astype(dtype)._value
    else:
        value = recording.number(dtype_name(dtype), fill_value)
    return Array(recording, recording.broadcast_to(value, sizes))


def zeros(shape: Any, dtype: Any = "float64") -> Array:
    """An array of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "float64") -> Array:
    """An array of ones."""
    return full(shape, 1, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """An array filled with one value, with the shape and dtype of another."""
    array = as_array(x)
    name = array._value.dtype if dtype is None else dtype_name(dtype)
    value = array._recording.number(name, fill_value)
    return Array(array._recording, array._recording.broadcast_to(value, list(array.shape if shape is None else shape)))


def zeros_like(x: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Zeros, with the shape and dtype of another array."""
    return full_like(x, 0, dtype, shape)


def ones_like(x: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Ones, with the shape and dtype of another array."""
    return full_like(x, 1, dtype, shape)


empty = zeros
empty_like = zeros_like


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """The numbers from ``start`` up to, but excluding, ``stop``; floats only if all arguments are Python numbers."""
    if stop is None:
        start, stop = 0, start
    recording = current()
    if any(isinstance(part, float) for part in (start, stop, step)):
        numbers: Any = (start, stop, step)
        return asarray(_numpy.arange(*numbers, dtype=dtype))
    if not isinstance(step, int):
        raise _kiln.error("unsupported", "a step of `arange` that is not an integer")
    span = stop - start if step > 0 else start - stop
    size = (span + abs(step) - 1) // abs(step)
    size = size.max(0) if isinstance(size, _kiln.Size) else max(size, 0)
    name = "int64" if dtype is None else dtype_name(dtype)
    positions = Array(recording, recording.op("iota", [], dims=[size], axis=0, dtype=name)[0])
    if not (isinstance(step, int) and step == 1):
        positions = positions * step
    is_zero = isinstance(start, int) and start == 0
    return positions if is_zero else positions + start


def linspace(start: float, stop: float, num: Any = 50, endpoint: bool = True, dtype: Any = "float64") -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop``."""
    steps = arange(num, dtype="float64")
    n_gaps = num - 1 if endpoint else num
    n_gaps = n_gaps.max(1) if isinstance(n_gaps, _kiln.Size) else max(n_gaps, 1)
    return (steps * ((stop - start) / lift(steps._recording, n_gaps)) + start).astype(dtype)


def eye(n: Any, m: Any = None, k: Any = 0, dtype: Any = "float64") -> Array:
    """Ones on a diagonal, zeros elsewhere."""
    m = n if m is None else m
    return (expand_dims(arange(n), 1) + k == arange(m)).astype(dtype)


def identity(n: Any, dtype: Any = "float64") -> Array:
    """Ones on the main diagonal, zeros elsewhere."""
    return eye(n, dtype=dtype)


def _triangle(array: Array, k: Any) -> Array:
    rows, columns = array.shape[-2:]
    return expand_dims(arange(rows), 1) + k >= arange(columns)


def tri(n: Any, m: Any = None, k: Any = 0, dtype: Any = "float64") -> Array:
    """Ones on and below a diagonal, zeros above."""
    m = n if m is None else m
    return (expand_dims(arange(n), 1) + k >= arange(m)).astype(dtype)


def tril(x: Any, k: Any = 0) -> Array:
    """Zeros above a diagonal."""
    array = as_array(x)
    return where(_triangle(array, k), array, zeros_like(array))


def triu(x: Any, k: Any = 0) -> Array:
    """Zeros below a diagonal."""
    array = as_array(x)
    return where(_triangle(array, k - 1), zeros_like(array), array)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
    """The coordinate arrays of a grid with these vectors as its axes."""
    vectors = lifted(arrays)
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    sizes = [vectors[place].shape[0] for place in places]
    grids = []
    for vector, place in zip(vectors, places):
        column = reshape(vector, [-1 if axis == place else 1 for axis in range(len(sizes))])
        grids.append(broadcast_to(column, sizes))
    return grids


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of a matrix, as the last axis."""
    array = as_array(x)
    array = moveaxis(array, [axis1, axis2], [array.ndim - 2, array.ndim - 1])
    rows, columns = array.shape[-2:]
    first = max(-offset, 0), max(offset, 0)
    size = _smaller(rows - first[0], columns - first[1])
    positions = arange(size)
    return array[..., positions + first[0], positions + first[1]]


def _smaller(a: Any, b: Any) -> Any:
    if isinstance(a, _kiln.Size):
        return a.min(b)
    return b.min(a) if isinstance(b, _kiln.Size) else min(a, b)


def trace(x: Any, offset: int = 0) -> Array:
    """The sum of the diagonal of a matrix."""
    return sum(diagonal(x, offset), -1)
