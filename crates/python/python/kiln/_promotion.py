"""Dtype promotion: the dtypes of results, as in NumPy, and the conversion of operands to one dtype.

Python numbers, sizes, and numbers passed as arguments are *weak*: they take the dtype of the array that they are
combined with, and are rejected if it cannot represent them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from . import _kiln

if TYPE_CHECKING:
    from ._array import Array

#: Dtypes of Python numbers, from the narrowest kind to the widest.
WEAK = ("bool", "int64", "float64")

_NUMBERS = (bool, int, float)


def is_number(value: Any) -> bool:
    """Whether it is a Python number, which takes the dtype of the array it is combined with."""
    return isinstance(value, _NUMBERS) and not isinstance(value, numpy.generic)


def dtype_name(dtype: Any) -> str:
    """The name of a dtype given in any form that NumPy accepts, or as ``"bfloat16"``."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    return numpy.dtype(dtype).name


def kind(name: str) -> int:
    """0 for booleans, 1 for integers, 2 for floats."""
    if name == "bool":
        return 0
    return 2 if "float" in name else 1


def result_dtype(names: Sequence[str]) -> str:
    """The dtype that arrays of these dtypes promote to."""
    if len(set(names)) == 1:
        return names[0]
    if "bfloat16" not in names:
        return numpy.result_type(*names).name
    others = [name for name in names if kind(name) == 2 and name != "bfloat16"]
    return numpy.result_type("float32", *others).name if others else "bfloat16"


def float_dtype(name: str) -> str:
    """The result dtype of a real-valued function, such as ``exp``, for an operand of a dtype."""
    if kind(name) == 2:
        return name
    width = 1 if name == "bool" else numpy.dtype(name).itemsize
    return {1: "float16", 2: "float32"}.get(width, "float64")


def weak_dtype(number: Any) -> str:
    """The dtype of a Python number that is not combined with an array."""
    if isinstance(number, bool):
        return "bool"
    return "int64" if isinstance(number, int) else "float64"


def promote(
    recording: _kiln.Recording, operands: Sequence[Any], to: str | None = None
) -> tuple[list[_kiln.Value], bool]:
    """Operands as values of one dtype, and whether the result is weak.

    :param to: the dtype they are converted to; by default the one that the arrays promote to.
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
                    f"expected a number that {dtype} can represent, to combine with an array of {dtype}, found one of "
                    f"{value.dtype}; convert the array with `astype`",
                )
        values.append(recording.cast(value, wanted))
    return values, weak


def as_float(array: Array) -> Array:
    """The array converted to a floating-point dtype."""
    return array._cast(float_dtype(array._value.dtype))
