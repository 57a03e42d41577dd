"""Matrix products and other contractions."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from .._array import Array
from .._promotion import promote
from ._context import axes_of, current, lifted
from ._elementwise import multiply
from ._movement import expand_dims, ravel, squeeze

#: The letters for numbered axes, in the order of an implicit result.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def matmul(x: Any, y: Any) -> Array:
    """The matrix product; a vector is a row on the left and a column on the right."""
    recording = current(x, y)
    values, _ = promote(recording, [x, y])
    a, b = (Array(recording, value) for value in values)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: expected arrays with axes, found a scalar; use `*`")
    rows, columns = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, 0) if rows else a
    b = expand_dims(b, 1) if columns else b
    product = a._op("matmul", b)
    dropped = [axis for axis, is_dropped in ((-2, rows), (-1, columns)) if is_dropped]
    return squeeze(product, dropped) if dropped else product


def dot(x: Any, y: Any) -> Array:
    """The product over the last axis of the first operand and the second-to-last axis of the second."""
    a, b = lifted([x, y])
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    if b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))


def inner(x: Any, y: Any) -> Array:
    """The product over the last axes."""
    a, b = lifted([x, y])
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(x: Any, y: Any) -> Array:
    """All products of the elements of two vectors."""
    a, b = lifted([x, y])
    return expand_dims(ravel(a), 1) * ravel(b)


def tensordot(x: Any, y: Any, axes: Any = 2) -> Array:
    """The product over pairs of axes."""
    a, b = lifted([x, y])
    if isinstance(axes, int):
        left = list(range(a.ndim - axes, a.ndim))
        right = list(range(axes))
    else:
        left, right = axes_of(a, axes[0]), axes_of(b, axes[1])
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for i, j in zip(left, right):
        second[j] = first[i]
    kept = [name for at, name in enumerate(first) if at not in left]
    kept += [name for at, name in enumerate(second) if at not in right]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", a, b)


def einsum(*operands: Any, optimize: Any = False) -> Array:
    """Einstein summation: ``einsum("bij,bjk->bik", x, y)`` or ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.

    ``...`` stands for any further axes. Operands are contracted from left to right; ``optimize`` is ignored.
    """
    equation, arrays = (operands[0], operands[1:]) if isinstance(operands[0], str) else _spelled(operands)
    recording = current(*arrays)
    values, _ = promote(recording, arrays)
    return Array(recording, recording.einsum(equation, values))


def _spelled(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Converts operands with lists of axis numbers to an equation with letters."""
    arrays, lists = list(operands[: len(operands) // 2 * 2 : 2]), operands[1::2]
    left = ",".join(_letters(numbers) for numbers in lists)
    return (f"{left}->{_letters(operands[-1])}" if len(operands) % 2 else left), arrays


def _letters(numbers: Sequence[Any]) -> str:
    """NumPy's letters for axis numbers from 0 to 51."""
    return "".join("..." if number is Ellipsis else _LETTERS[number] for number in numbers)
