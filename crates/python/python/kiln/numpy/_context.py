"""The function that is being traced, and the conversion of arguments to arrays, axes and sizes."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

from .. import _kiln
from .._array import Array, lift, recording_of

#: The recording of the function that is being traced.
tracing: contextvars.ContextVar[_kiln.Recording | None] = contextvars.ContextVar("kiln.tracing", default=None)


def current(*values: Any) -> _kiln.Recording:
    """The recording of the arrays among the values, or else of the function that is being traced."""
    found = recording_of(values) or tracing.get()
    if found is None:
        raise _kiln.error(
            "traced", "functions of `kiln.numpy` work only while tracing: call them inside `kiln.jit`, or use NumPy's"
        )
    return found


def as_array(*values: Any) -> Array:
    """The first value as an array."""
    return lift(current(*values), values[0])


def lifted(arrays: Sequence[Any]) -> list[Array]:
    """Values as arrays."""
    recording = current(*arrays)
    return [lift(recording, array) for array in arrays]


def axes_of(array: Array, axis: Any) -> list[int]:
    """The non-negative axes for one axis or several, which may count from the end; all axes for None."""
    if axis is None:
        return list(range(array.ndim))
    given = axis if isinstance(axis, (tuple, list)) else [axis]
    return [axis_of(array, one) for one in given]


def axis_of(array: Array, axis: int) -> int:
    """The non-negative axis for one that may count from the end."""
    rank = array.ndim
    if not -rank <= axis < rank:
        raise IndexError(f"expected an axis in [-{rank}, {rank}) of {array!r}, found {axis}")
    return axis % rank


def sizes_of(shape: Any) -> list[Any]:
    """The sizes of a shape, which may be a single size."""
    return list(shape) if isinstance(shape, (tuple, list)) else [shape]
