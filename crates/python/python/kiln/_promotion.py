"""Dtypes of results, as NumPy has them, and operands brought to one dtype.

Python's numbers, sizes and numbers that were passed as arguments are *weak*: they take the dtype of the array beside them, and
are refused where it cannot represent them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from . import _kiln

if TYPE_CHECKING:
    from ._array import Array

#: Dtypes of Python's numbers, from the narrowest kind to the widest.
WEAK = ("bool", "int64", "float64")

_NUMBERS = (bool, int, float)


def is_number(value: Any) -> bool:
    """Whether it is a number of Python's, which takes the dtype of the array beside it."""
    return isinstance(value, _NUMBERS) and not isinstance(value, numpy.generic)


def dtype_name(dtype: Any) -> str:
    """The name of a dtype that is given as NumPy takes it, or as ``"bfloat16"``."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    return numpy.dtype(dtype).name


def kind(name: str) -> int:
    """0 for truth values, 1 for integers, 2 for floats."""
    if name == "bool":
        return 0
    return 2 if "float" in name else 1


def result_dtype(names: Sequence[str]) -> str:
    """The dtype that arrays of these dtypes have together."""
    if len(set(names)) == 1:
        return names[0]
    if "bfloat16" not in names:
        return numpy.result_type(*names).name
    others = [name for name in names if kind(name) == 2 and name != "bfloat16"]
    return numpy.result_type("float32", *others).name if others else "bfloat16"


def float_dtype(name: str) -> str:
    """The dtype of functions of real numbers, such as ``exp``, on a dtype."""
    if kind(name) == 2:
        return name
    width = 1 if name == "bool" else numpy.dtype(name).itemsize
    return {1: "float16", 2: "float32"}.get(width, "float64")


def weak_dtype(number: Any) -> str:
    """The dtype that a number of Python's has where no array is beside it."""
    if isinstance(number, bool):
        return "bool"
    return "int64" if isinstance(number, int) else "float64"


def promote(
    recording: _kiln.Recording, operands: Sequence[Any], to: str | None = None
) -> tuple[list[_kiln.Value], bool]:
    """Operands as values of one dtype, and whether the result is weak.

    :param to: the dtype that they are brought to; that of the arrays together by default.
    """
    from ._array import lift

    lifted: list[Any] = [operand if is_number(operand) else lift(recording, operand) for operand in operands]
    arrays = [operand for operand in lifted if not is_number(operand)]
    strong = [array._value.dtype for array in arrays if not array._weak]
    weak = not strong
    if strong:
        dtype = result_dtype(strong)
    else:
        names = [array._value.dtype for array in arrays]
        names += [weak_dtype(number) for number in lifted if is_number(number)]
        dtype = max(names, key=kind)
    wanted = to if to is not None else dtype
    values: list[_kiln.Value] = []
    for operand in lifted:
        if is_number(operand):
            value = recording.number(dtype, operand)
        else:
            value = operand._value
            if operand._weak and kind(value.dtype) > kind(dtype):
                raise _kiln.error(
                    "traced",
                    f"expected a number that {dtype} can represent beside an array of {dtype}, found one of "
                    f"{value.dtype}; convert the array with `astype`",
                )
        values.append(recording.cast(value, wanted))
    return values, weak


def as_float(array: Array) -> Array:
    """The array with a dtype of floats."""
    return array._cast(float_dtype(array._value.dtype))
