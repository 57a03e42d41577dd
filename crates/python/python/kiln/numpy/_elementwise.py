"""Elementwise functions, with operands broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as _numpy

from .. import _kiln
from .._array import Array, lift
from .._promotion import as_float, float_dtype, kind, promote
from ._context import as_array, current


def _unary(mnemonic: str, doc: str, *, floats: bool = True) -> Any:
    def function(x: Any) -> Array:
        array = as_array(x)
        if floats:
            array = as_float(array)
        return Array(array._recording, array._recording.op(mnemonic, [array._value])[0], array._weak)

    function.__doc__ = doc
    return function


exp = _unary("exp", "e to the x.")
exp2 = _unary("exp2", "2 to the x.")
expm1 = _unary("expm1", "e to the x, minus 1.")
log = _unary("log", "The natural logarithm.")
log2 = _unary("log2", "The logarithm to base 2.")
log1p = _unary("log1p", "The natural logarithm of 1 + x.")
sqrt = _unary("sqrt", "The square root.")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
tan = _unary("tan", "The tangent.")
arcsin = _unary("asin", "The inverse sine.")
arccos = _unary("acos", "The inverse cosine.")
arctan = _unary("atan", "The inverse tangent.")
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
tanh = _unary("tanh", "The hyperbolic tangent.")
arcsinh = _unary("asinh", "The inverse hyperbolic sine.")
arccosh = _unary("acosh", "The inverse hyperbolic cosine.")
arctanh = _unary("atanh", "The inverse hyperbolic tangent.")
negative = _unary("neg", "-x.", floats=False)
square = _unary("square", "x * x.", floats=False)
sign = _unary("sign", "-1, 0 or 1.", floats=False)
isnan = _unary("is_nan", "Whether x is NaN.")
isinf = _unary("is_inf", "Whether x is infinite.")


def _rounding(mnemonic: str, doc: str) -> Any:
    def function(x: Any) -> Array:
        array = as_array(x)
        return array if kind(array._value.dtype) < 2 else array._op(mnemonic)

    function.__doc__ = doc
    return function


floor = _rounding("floor", "Rounds down.")
ceil = _rounding("ceil", "Rounds up.")
trunc = _rounding("trunc", "Rounds towards zero.")
rint = _rounding("round_even", "Rounds to the nearest integer, and halves to even.")


def positive(x: Any) -> Array:
    """x itself."""
    return as_array(x)


def abs(x: Any) -> Array:
    """The absolute value."""
    array = as_array(x)
    return array if array._value.dtype == "bool" else array._op("abs")


absolute = abs
fabs = abs


def reciprocal(x: Any) -> Array:
    """1 / x."""
    return divide(1, x)


def log10(x: Any) -> Array:
    """The logarithm to base 10."""
    return log(x) * (1 / math.log(10))


def cbrt(x: Any) -> Array:
    """The cube root."""
    array = as_float(as_array(x))
    return sign(array) * power(abs(array), 1 / 3)


def isfinite(x: Any) -> Array:
    """Whether x is finite: neither NaN nor infinite."""
    return logical_not(logical_or(isnan(x), isinf(x)))


def deg2rad(x: Any) -> Array:
    """Converts degrees to radians."""
    return as_float(as_array(x)) * (math.pi / 180)


def rad2deg(x: Any) -> Array:
    """Converts radians to degrees."""
    return as_float(as_array(x)) * (180 / math.pi)


radians = deg2rad
degrees = rad2deg


def round(x: Any, decimals: int = 0) -> Array:
    """Rounds to a number of decimals, and halves to even."""
    if decimals == 0:
        return rint(x)
    scale = 10.0**decimals
    return rint(as_array(x) * scale) / scale


around = round


def _apply(mnemonic: str, operands: Sequence[Any], to: str | None = None) -> Array:
    recording = current(*operands)
    values, weak = promote(recording, operands, to)
    return Array(recording, recording.op(mnemonic, values)[0], weak)


def _binary(mnemonic: str, doc: str, *, for_bools: str | None = None, floats: bool = False) -> Any:
    def function(x: Any, y: Any) -> Array:
        recording = current(x, y)
        values, weak = promote(recording, [x, y])
        name = values[0].dtype
        if floats and kind(name) < 2:
            values = [recording.cast(value, float_dtype(name)) for value in values]
        used = for_bools if for_bools is not None and name == "bool" else mnemonic
        return Array(recording, recording.op(used, values)[0], weak)

    function.__doc__ = doc
    return function


add = _binary("add", "x + y; for booleans, logical or.", for_bools="or")
subtract = _binary("sub", "x - y.")
multiply = _binary("mul", "x * y; for booleans, logical and.", for_bools="and")
floor_divide = _binary("floor_div", "x / y, rounded down.")
remainder = _binary("floor_mod", "The remainder of `floor_divide`, with the sign of y.")
mod = remainder
fmod = _binary("rem", "The remainder of a division, with the sign of x.")
maximum = _binary("max", "The larger of x and y; NaN if either is NaN.", for_bools="or")
minimum = _binary("min", "The smaller of x and y; NaN if either is NaN.", for_bools="and")
arctan2 = _binary("atan2", "The angle of the point (y, x).", floats=True)
bitwise_and = _binary("bit_and", "Bits set in both.", for_bools="and")
bitwise_or = _binary("bit_or", "Bits set in either.", for_bools="or")
bitwise_xor = _binary("bit_xor", "Bits set in exactly one.", for_bools="xor")
left_shift = _binary("shl", "x shifted left by y bits.")
right_shift = _binary("shr", "x shifted right by y bits.")


def divide(x: Any, y: Any) -> Array:
    """x / y; the quotient of integers is a float64."""
    recording = current(x, y)
    values, weak = promote(recording, [x, y])
    if kind(values[0].dtype) < 2:
        values = [recording.cast(value, "float64") for value in values]
    return Array(recording, recording.op("div", values)[0], weak)


true_divide = divide


def power(x: Any, y: Any) -> Array:
    """x to the power of y."""
    if isinstance(y, (int, float)) and y == 2:
        return square(x)
    return _apply("pow", [x, y])


def float_power(x: Any, y: Any) -> Array:
    """x to the power of y, in float64."""
    return _apply("pow", [as_array(x, y).astype("float64"), y])


def divmod(x: Any, y: Any) -> tuple[Array, Array]:
    """`floor_divide` and `remainder`."""
    return floor_divide(x, y), remainder(x, y)


def _comparison(mnemonic: str, doc: str) -> Any:
    def function(x: Any, y: Any) -> Array:
        recording = current(x, y)
        values, _ = promote(recording, [x, y])
        return Array(recording, recording.op(mnemonic, values)[0])

    function.__doc__ = doc
    return function


equal = _comparison("eq", "Whether x == y.")
not_equal = _comparison("ne", "Whether x != y.")
less = _comparison("lt", "Whether x < y.")
less_equal = _comparison("le", "Whether x <= y.")
greater = _comparison("gt", "Whether x > y.")
greater_equal = _comparison("ge", "Whether x >= y.")


def _logical(mnemonic: str, doc: str) -> Any:
    def function(*operands: Any) -> Array:
        recording = current(*operands)
        values = [recording.cast(lift(recording, operand)._value, "bool") for operand in operands]
        return Array(recording, recording.op(mnemonic, values)[0])

    function.__doc__ = doc
    return function


logical_and = _logical("and", "Whether both are true.")
logical_or = _logical("or", "Whether either is true.")
logical_xor = _logical("xor", "Whether exactly one is true.")
logical_not = _logical("not", "Whether it is false.")


def invert(x: Any) -> Array:
    """Flips every bit; for booleans, logical not."""
    array = as_array(x)
    return array._op("not" if array._value.dtype == "bool" else "bit_not")


bitwise_not = invert


def hypot(x: Any, y: Any) -> Array:
    """The length of the vector (x, y)."""
    return sqrt(square(as_array(x, y)) + square(y if isinstance(y, Array) else lift(current(x, y), y)))


def logaddexp(x: Any, y: Any) -> Array:
    """log(exp(x) + exp(y)), computed without overflow."""
    larger = maximum(x, y)
    return larger + log1p(exp(minimum(x, y) - larger))


def fmax(x: Any, y: Any) -> Array:
    """The larger of x and y; if one is NaN, the other."""
    recording = current(x, y)
    a, b = lift(recording, x), lift(recording, y)
    return where(isnan(a), b, where(isnan(b), a, maximum(a, b)))


def fmin(x: Any, y: Any) -> Array:
    """The smaller of x and y; if one is NaN, the other."""
    recording = current(x, y)
    a, b = lift(recording, x), lift(recording, y)
    return where(isnan(a), b, where(isnan(b), a, minimum(a, b)))


def where(condition: Any, x: Any = None, y: Any = None) -> Array:
    """x where the condition is true, else y."""
    if x is None or y is None:
        raise _kiln.error(
            "unsupported", "`where` with a condition alone gives arrays whose sizes depend on values; use `where(condition, x, y)`"
        )
    recording = current(condition, x, y)
    values, weak = promote(recording, [x, y])
    chosen = recording.cast(lift(recording, condition)._value, "bool")
    return Array(recording, recording.op("select", [chosen, *values])[0], weak)


def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Array:
    """The choice of the first condition that is true."""
    result = default
    for condition, choice in zip(reversed(list(conditions)), reversed(list(choices))):
        result = where(condition, choice, result)
    return result


def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Array:
    """x, limited to the range from the minimum to the maximum."""
    least = a_min if a_min is not None else min
    most = a_max if a_max is not None else max
    array = as_array(x, least, most)
    if least is not None:
        array = maximum(array, least)
    return array if most is None else minimum(array, most)


def astype(x: Any, dtype: Any) -> Array:
    """Converts every element to another dtype."""
    return as_array(x).astype(dtype)


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """Replaces NaN by a number, and infinities by the largest finite numbers."""
    array = as_array(x)
    if kind(array._value.dtype) < 2:
        return array
    name = array._value.dtype
    most = float(_numpy.finfo(name).max) if name != "bfloat16" else 3.3895313892515355e38
    array = where(isnan(array), nan, array)
    array = where(equal(array, math.inf), most if posinf is None else posinf, array)
    return where(equal(array, -math.inf), -most if neginf is None else neginf, array)
