"""Functions that move elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _kiln
from .._array import Array, lift
from .._promotion import promote
from ._context import as_array, axes_of, axis_of, current, lifted, sizes_of


def reshape(x: Any, shape: Any) -> Array:
    """The same elements in row-major order in another shape; -1 stands for a size to be inferred."""
    array = as_array(x)
    sizes = [None if isinstance(size, int) and size == -1 else size for size in sizes_of(shape)]
    return Array(array._recording, array._recording.reshape(array._value, sizes))


def ravel(x: Any) -> Array:
    """All elements in one axis."""
    return reshape(x, [-1])


def transpose(x: Any, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order; in reverse by default."""
    array = as_array(x)
    order = list(range(array.ndim))[::-1] if axes is None else axes_of(array, list(axes))
    return array if order == list(range(array.ndim)) else array._op("transpose", permutation=order)


permute_dims = transpose


def swapaxes(x: Any, axis1: int, axis2: int) -> Array:
    """Exchanges two axes."""
    array = as_array(x)
    order = list(range(array.ndim))
    a, b = axis_of(array, axis1), axis_of(array, axis2)
    order[a], order[b] = b, a
    return transpose(array, order)


def moveaxis(x: Any, source: Any, destination: Any) -> Array:
    """Moves axes to other positions."""
    array = as_array(x)
    moved, places = axes_of(array, source), axes_of(array, destination)
    order = [axis for axis in range(array.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved)):
        order.insert(place, axis)
    return transpose(array, order)


def expand_dims(x: Any, axis: Any) -> Array:
    """Adds axes of size 1, at these positions in the result."""
    array = as_array(x)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    return Array(array._recording, array._recording.unsqueeze(array._value, axes))


def squeeze(x: Any, axis: Any = None) -> Array:
    """Removes axes of size 1; by default all that are known to have that size."""
    array = as_array(x)
    if axis is None:
        axes = [at for at, size in enumerate(array.shape) if isinstance(size, int) and size == 1]
    else:
        axes = axes_of(array, axis)
    return Array(array._recording, array._recording.squeeze(array._value, axes))


def broadcast_to(x: Any, shape: Any) -> Array:
    """Repeats an array along axes of size 1 and new outer axes, to a shape."""
    array = as_array(x, *sizes_of(shape))
    return Array(array._recording, array._recording.broadcast_to(array._value, sizes_of(shape)))


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Array:
    """Joins arrays along an existing axis."""
    recording = current(*arrays)
    values, _ = promote(recording, arrays)
    if axis is None:
        values = [recording.reshape(value, [None]) for value in values]
        axis = 0
    first = Array(recording, values[0])
    if len(values) == 1:
        return first
    return Array(recording, recording.op("concat", values, axis=axis_of(first, axis))[0])


concat = concatenate


def stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    """Joins arrays of the same shape along a new axis."""
    recording = current(*arrays)
    return concatenate([expand_dims(lift(recording, array), axis) for array in arrays], axis)


def vstack(arrays: Sequence[Any]) -> Array:
    """Joins arrays along the first axis; vectors become rows."""
    return concatenate([atleast_2d(array) for array in lifted(arrays)], 0)


def hstack(arrays: Sequence[Any]) -> Array:
    """Joins arrays along the second axis, or vectors along their only one."""
    parts = [atleast_1d(array) for array in lifted(arrays)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


def atleast_1d(x: Any) -> Array:
    """The array with at least one axis."""
    array = as_array(x)
    return array if array.ndim else reshape(array, [1])


def atleast_2d(x: Any) -> Array:
    """The array with at least two axes: new ones come first."""
    array = atleast_1d(x)
    return array if array.ndim > 1 else expand_dims(array, 0)


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Splits along an axis: into a number of equal parts, or at indices."""
    array = as_array(x)
    at = axis_of(array, axis)
    rest = (slice(None),) * at
    if isinstance(indices_or_sections, int):
        # If the number of parts does not divide the size, the call fails.
        part = array.shape[at] // indices_or_sections
        whole = reshape(array, [*array.shape[:at], indices_or_sections, part, *array.shape[at + 1 :]])
        return [whole[(*rest, index)] for index in range(indices_or_sections)]
    bounds = [0, *indices_or_sections, None]
    return [array[(*rest, slice(first, last))] for first, last in zip(bounds, bounds[1:])]


def tile(x: Any, reps: Any) -> Array:
    """Repeats the whole array along each axis."""
    counts = sizes_of(reps)
    array = as_array(x, *counts)
    if len(counts) > array.ndim:
        array = expand_dims(array, list(range(len(counts) - array.ndim)))
    counts = [1] * (array.ndim - len(counts)) + counts
    return Array(array._recording, array._recording.tile(array._value, counts))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Array:
    """Repeats every element a number of times along an axis."""
    array = as_array(x, repeats)
    if axis is None:
        array, axis = ravel(array), 0
    at = axis_of(array, axis)
    sizes = list(array.shape)
    wide = expand_dims(array, at + 1)
    wide = broadcast_to(wide, [*sizes[: at + 1], repeats, *sizes[at + 1 :]])
    return reshape(wide, [*sizes[:at], sizes[at] * repeats, *sizes[at + 1 :]])


def flip(x: Any, axis: Any = None) -> Array:
    """Reverses the order along axes; along all of them by default."""
    array = as_array(x)
    flipped = axes_of(array, axis)
    return array[tuple(slice(None, None, -1 if at in flipped else 1) for at in range(array.ndim))]


def roll(x: Any, shift: Any, axis: Any = None) -> Array:
    """Shifts elements along axes; those moved past the end return at the start."""
    array = as_array(x, *sizes_of(shift))
    if axis is None:
        return reshape(roll(ravel(array), shift, 0), array.shape)
    shifts = sizes_of(shift)
    for at, by in zip(axes_of(array, axis), shifts * len(sizes_of(axis)) if len(shifts) == 1 else shifts):
        rest = (slice(None),) * at
        size = array.shape[at]
        # A shift by more than the size wraps around.
        start = (0 - by) % size.max(1) if isinstance(size, _kiln.Size) else (0 - by) % max(size, 1)
        array = concatenate([array[(*rest, slice(start, None))], array[(*rest, slice(None, start))]], at)
    return array


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Array:
    """Adds a border, in the mode ``constant``, ``edge``, ``reflect`` or ``wrap``."""
    modes = ("constant", "edge", "reflect", "wrap")
    if mode not in modes:
        raise _kiln.error("unsupported", f"expected the mode of `pad` to be one of {', '.join(modes)}, found {mode!r}")
    array = as_array(x)
    widths = _pad_widths(pad_width, array.ndim)
    border = array._recording.number(array._value.dtype, constant_values)
    value = array._recording.op(
        "pad",
        [array._value, border],
        low=[low for low, _ in widths],
        high=[high for _, high in widths],
        mode=mode,
    )[0]
    return Array(array._recording, value)


def _pad_widths(width: Any, rank: int) -> list[tuple[Any, Any]]:
    if not isinstance(width, (tuple, list)):
        return [(width, width)] * rank
    if not isinstance(width[0], (tuple, list)):
        low, high = width if len(width) == 2 else (width[0], width[0])
        return [(low, high)] * rank
    pairs = [tuple(pair) for pair in width]
    return pairs * rank if len(pairs) == 1 else pairs  # type: ignore[return-value]


def take(x: Any, indices: Any, axis: int | None = None) -> Array:
    """Slices at indices along an axis; by default, elements of the flattened array."""
    array = as_array(x, indices)
    if axis is None:
        return ravel(array)[lift(array._recording, indices)]
    rest = (slice(None),) * axis_of(array, axis)
    return array[(*rest, lift(array._recording, indices))]


def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Array:
    """Elements whose positions along an axis are given."""
    array = as_array(x, indices)
    positions = lift(array._recording, indices)
    if axis is None:
        return take_along_axis(ravel(array), ravel(positions), 0)
    return array._op("gather_elements", positions, axis=axis_of(array, axis))


def diff(x: Any, n: int = 1, axis: int = -1) -> Array:
    """The differences between neighbouring elements, taken ``n`` times."""
    array = as_array(x)
    rest = (slice(None),) * axis_of(array, axis)
    for _ in range(n):
        array = array[(*rest, slice(1, None))] - array[(*rest, slice(None, -1))]
    return array
