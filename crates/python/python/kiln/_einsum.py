"""Einstein's sums as products of matrices: operands are combined from left to right, two at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._array import Array

#: Names of the axes that an ellipsis stands for, innermost last.
_MORE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contract(subscripts: str, operands: Sequence[Array]) -> Array:
    """``einsum`` of arrays of one dtype."""
    inputs, output = _parsed(subscripts, operands)
    names, result = inputs[0], operands[0]
    result, names = _diagonals(result, names)
    for position in range(1, len(operands)):
        later = set(output).union(*inputs[position + 1 :])
        other, other_names = _diagonals(operands[position], inputs[position])
        result, names = _product(result, names, other, other_names, later)
    result, names = _summed(result, names, set(output))
    missing = [name for name in output if name not in names]
    if missing:
        raise ValueError(f"einsum: expected names of the operands in the output, found {', '.join(missing)}")
    return _ordered(result, names, output)


def _parsed(subscripts: str, operands: Sequence[Array]) -> tuple[list[str], str]:
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ValueError(f"einsum: expected {len(inputs)} operands for {subscripts!r}, found {len(operands)}")
    most = 0
    for position, (names, operand) in enumerate(zip(inputs, operands)):
        plain = names.replace("...", "")
        n_more = operand.ndim - len(plain)
        if n_more < 0 or ("..." not in names and n_more > 0):
            raise ValueError(f"einsum: expected {names!r} to name every axis of {operand!r}")
        if any(name in _MORE for name in plain):
            raise ValueError(f"einsum: expected names in lower case, found {names!r}")
        most = max(most, n_more)
        inputs[position] = names.replace("...", _MORE[len(_MORE) - n_more :])
    everywhere = _MORE[len(_MORE) - most :]
    if arrow:
        return inputs, output.replace("...", everywhere)
    joined = "".join(inputs)
    once = sorted(name for name in set(joined) if joined.count(name) == 1 and name not in _MORE)
    return inputs, everywhere + "".join(once)


def _diagonals(x: Array, names: str) -> tuple[Array, str]:
    """Without a name that occurs twice."""
    from . import numpy as functions

    for name in sorted(set(names)):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            x = functions.diagonal(x, 0, first, second)
            names = names[:first] + names[first + 1 : second] + names[second + 1 :] + name
    return x, names


def _summed(x: Array, names: str, needed: set[str]) -> tuple[Array, str]:
    axes = [axis for axis, name in enumerate(names) if name not in needed]
    if axes:
        x = x._op("reduce", function="sum", axes=axes)
    return x, "".join(name for name in names if name in needed)


def _ordered(x: Array, names: str, order: str) -> Array:
    permutation = [names.index(name) for name in order]
    return x if permutation == list(range(len(order))) else x._op("transpose", permutation=permutation)


def _product(a: Array, a_names: str, b: Array, b_names: str, later: set[str]) -> tuple[Array, str]:
    a, a_names = _summed(a, a_names, later | set(b_names))
    b, b_names = _summed(b, b_names, later | set(a_names))
    both = [name for name in a_names if name in b_names]
    batch = "".join(name for name in both if name in later)
    contracted = "".join(name for name in both if name not in later)
    left = "".join(name for name in a_names if name not in both)
    right = "".join(name for name in b_names if name not in both)
    if not contracted:
        names = batch + left + right
        product = _widened(a, a_names, names)._op("mul", _widened(b, b_names, names))
        return product, names
    a = _ordered(a, a_names, batch + left + contracted)
    b = _ordered(b, b_names, batch + contracted + right)
    n_batch, n_left, n_contracted = len(batch), len(left), len(contracted)
    left_sizes = a.shape[n_batch : n_batch + n_left]
    right_sizes = b.shape[n_batch + n_contracted :]
    depths = math.prod(a.shape[n_batch + n_left :]), math.prod(b.shape[n_batch : n_batch + n_contracted])
    a = a.reshape([*a.shape[:n_batch], math.prod(left_sizes), depths[0]])
    b = b.reshape([*b.shape[:n_batch], depths[1], math.prod(right_sizes)])
    product = a._op("matmul", b)
    return product.reshape([*product.shape[:n_batch], *left_sizes, *right_sizes]), batch + left + right


def _widened(x: Array, names: str, order: str) -> Array:
    """With the axes in an order, and axes of size 1 for those that it lacks."""
    from . import numpy as functions

    x = _ordered(x, names, "".join(name for name in order if name in names))
    missing = [axis for axis, name in enumerate(order) if name not in names]
    return functions.expand_dims(x, missing) if missing else x
