"""Array indexing as in NumPy: by integers, slices, None, an ellipsis, and arrays of integers."""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _kiln
from ._array import Array, lift
from ._promotion import kind, promote


def take_index(x: Array, key: Any) -> Array:
    """``x[key]``."""
    recording = x._recording
    value = x._value
    items = _expanded(x, key)
    arrays: list[tuple[int, Array]] = []
    # For each item, the axis of `x` that it indexes; None for a new axis.
    axes: list[int | None] = []
    axis = 0
    for item in items:
        if item is None:
            axes.append(None)
            continue
        if isinstance(item, slice):
            value = _sliced(recording, value, axis, item)
        elif _is_integer(item):
            start = item if isinstance(item, _kiln.Size) or item >= 0 else value.shape[axis] + int(item)
            value = recording.slice_axis(value, axis, start, 1)
        else:
            arrays.append((axis, _integers(x, item)))
        axes.append(axis)
        axis += 1
    # The new position of each axis of `x`, and those of the axes of the index arrays.
    place: dict[int, int] = {axis: axis for axis in range(x.ndim)}
    indexed: list[int] = []
    if arrays:
        value, place, indexed = _gathered(recording, value, arrays)
    chosen = _result_axes(items, axes, place, indexed)
    kept = [axis for axis in chosen if axis is not None]
    order = kept + [axis for axis in range(value.ndim) if axis not in kept]
    if order != list(range(len(order))):
        value = recording.op("transpose", [value], permutation=order)[0]
    if len(order) > len(kept) or None in chosen:
        sizes = iter(value.shape)
        value = recording.reshape(value, [1 if axis is None else next(sizes) for axis in chosen])
    return Array(recording, value)


def _result_axes(
    items: list[Any], axes: list[int | None], place: dict[int, int], indexed: list[int]
) -> list[int | None]:
    """The axes of the result, None for new ones. The axes of index arrays replace the indexed axes if all integers and
    arrays are adjacent in the index; otherwise they come first."""
    advanced = [at for at, item in enumerate(items) if item is not None and not isinstance(item, slice)]
    is_adjacent = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    result: list[int | None] = [] if is_adjacent else list(indexed)
    for at, axis in enumerate(axes):
        if is_adjacent and advanced and at == advanced[0]:
            result += indexed
        if axis is None:
            result.append(None)
        elif isinstance(items[at], slice):
            result.append(place[axis])
    return result


def put_index(x: Array, key: Any, update: Any, combine: str) -> Array:
    """``x`` with an update combined into the elements that ``x[key]`` selects."""
    recording = x._recording
    sizes = x.shape
    count = math.prod(sizes)
    flat = recording.op("iota", [], dims=[count], axis=0, dtype="int64")[0]
    positions = take_index(Array(recording, recording.reshape(flat, list(sizes))), key)._value
    (_, new), _ = promote(recording, [x, update], x._value.dtype)
    new = recording.broadcast_to(new, list(positions.shape))
    operands = [recording.reshape(value, [None]) for value in (x._value, positions, new)]
    result = recording.op("scatter_elements", operands, axis=0, combine=combine)[0]
    return Array(recording, recording.reshape(result, list(sizes)))


def _expanded(x: Array, key: Any) -> list[Any]:
    """One item per axis, and None for each new axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    n_axes = sum(item is not None and item is not Ellipsis for item in items)
    if n_axes > x.ndim:
        raise IndexError(f"expected at most {x.ndim} indices for {x!r}, found {n_axes}")
    missing = [slice(None)] * (x.ndim - n_axes)
    ellipses = [index for index, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can have only one ellipsis (`...`)")
    at = ellipses[0] if ellipses else len(items)
    return items[:at] + missing + items[at + 1 :]


def _is_integer(item: Any) -> bool:
    if isinstance(item, _kiln.Size):
        return True
    return isinstance(item, (int, numpy.integer)) and not isinstance(item, (bool, numpy.bool_))


def _sliced(recording: _kiln.Recording, value: _kiln.Value, axis: int, item: slice) -> _kiln.Value:
    for part in (item.start, item.stop):
        if isinstance(part, Array):
            raise _kiln.error(
                "traced",
                "expected the bounds of a slice to be integers or sizes, found an array, whose values would decide the "
                "size of the result; use `kiln.numpy.take` with positions",
            )
    step = 1 if item.step is None else int(item.step)
    return recording.slice(value, axis, item.start, item.stop, step)


def _integers(x: Array, item: Any) -> Array:
    indices = lift(x._recording, item)
    name = indices._value.dtype
    if kind(name) == 0:
        raise _kiln.error(
            "unsupported",
            "a boolean index gives an array whose size depends on values; use `numpy.where(mask, x, other)`",
        )
    if kind(name) != 1:
        raise IndexError(f"expected indices to be integers, found {indices!r}")
    return indices._cast("int64") if name.startswith("u") else indices


def _gathered(
    recording: _kiln.Recording, value: _kiln.Value, arrays: list[tuple[int, Array]]
) -> tuple[_kiln.Value, dict[int, int], list[int]]:
    """The elements at index arrays, the new positions of the other axes, and those of the axes of the index arrays."""
    indexed = [axis for axis, _ in arrays]
    others = [axis for axis in range(value.ndim) if axis not in indexed]
    if len(arrays) == 1:
        (axis, indices) = arrays[0]
        value = recording.op("gather", [value, indices._value], axis=axis)[0]
        n_axes = indices.ndim
        place = {other: other if other < axis else other - 1 + n_axes for other in others}
        return value, place, list(range(axis, axis + n_axes))
    wide = [recording.cast(indices._value, "int64") for _, indices in arrays]
    joined = wide[0]
    for other in wide[1:]:
        joined = recording.op("add", [joined, other])[0]
    shape = list(joined.shape)
    value = recording.op("transpose", [value], permutation=indexed + others)[0]
    addresses = [
        recording.reshape(recording.broadcast_to(indices, shape), [*shape, 1]) for indices in wide
    ]
    stacked = recording.op("concat", addresses, axis=len(shape))[0]
    value = recording.op("gather_nd", [value, stacked], batch_axes=0)[0]
    place = {other: len(shape) + at for at, other in enumerate(others)}
    return value, place, list(range(len(shape)))
