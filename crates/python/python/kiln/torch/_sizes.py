"""Converts PyTorch's symbolic sizes to Kiln's, and evaluates them in a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from .. import _kiln
from ._account import Unsupported


def expression(size: Any) -> sympy.Expr:
    """The expression of a PyTorch size."""
    if isinstance(size, torch.SymInt):
        return size.node.expr
    return sympy.Integer(int(size))


def symbols(size: Any) -> set[str]:
    """The names of the symbols in a size."""
    return {symbol.name for symbol in expression(size).free_symbols}


def convert(recording: _kiln.Recording, size: Any) -> Any:
    """Converts a PyTorch size to one of a recording: an integer or a ``Size``."""
    if isinstance(size, int):
        return size
    return _converted(recording, expression(size))


def _converted(recording: _kiln.Recording, expr: sympy.Expr) -> Any:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return recording.symbol(expr.name)
    if expr.is_Float and float(expr).is_integer():
        return int(expr)
    parts = [_converted(recording, part) for part in expr.args]
    if expr.is_Add:
        return sum(parts[1:], parts[0])
    if expr.is_Mul:
        product = parts[0]
        for part in parts[1:]:
            product = product * part
        return product
    if expr.is_Pow or isinstance(expr, functions.PowByNatural):
        base, exponent = parts
        if isinstance(exponent, int) and exponent >= 0:
            product = 1
            for _ in range(exponent):
                product = base * product
            return product
    if isinstance(expr, functions.FloorDiv):
        return parts[0] // parts[1]
    if isinstance(expr, (functions.Mod, functions.PythonMod)):
        return parts[0] % parts[1]
    if isinstance(expr, functions.ModularIndexing):
        return (parts[0] // parts[1]) % parts[2]
    if isinstance(expr, functions.CeilDiv):
        return (parts[0] + parts[1] - 1) // parts[1]
    if isinstance(expr, (functions.Max, sympy.Max)):
        return _extremum(parts, "max", max)
    if isinstance(expr, (functions.Min, sympy.Min)):
        return _extremum(parts, "min", min)
    # The operand is an integer: anything else was rejected above.
    whole = (functions.Identity, functions.ToFloat, functions.TruncToInt, functions.FloorToInt, functions.CeilToInt)
    if isinstance(expr, whole):
        return parts[0]
    raise Unsupported(f"a size is {type(expr).__name__}, such as {expr}")


def _extremum(parts: list[Any], name: str, known: Any) -> Any:
    result = parts[0]
    for part in parts[1:]:
        if isinstance(result, int) and isinstance(part, int):
            result = known(result, part)
        elif isinstance(result, int):
            result = getattr(part, name)(result)
        else:
            result = getattr(result, name)(part)
    return result


def convert_float(recording: _kiln.Recording, expr: sympy.Expr) -> _kiln.Value:
    """A number that is computed from sizes, as a value ``float64[]``."""

    def combined(mnemonic: str, parts: list[_kiln.Value]) -> _kiln.Value:
        result = parts[0]
        for part in parts[1:]:
            result = recording.op(mnemonic, [result, part])[0]
        return result

    if expr.is_number:
        return recording.number("float64", float(expr))
    if expr.is_integer:
        data = recording.op("dims", [], sizes=[_converted(recording, expr)])[0]
        return recording.cast(recording.reshape(data, []), "float64")
    parts = [convert_float(recording, part) for part in expr.args]
    if isinstance(expr, functions.ToFloat):
        return parts[0]
    if isinstance(expr, (functions.IntTrueDiv, functions.FloatTrueDiv)):
        return combined("div", parts)
    if isinstance(expr, functions.FloatPow) or expr.is_Pow:
        return combined("pow", parts)
    if expr.is_Add:
        return combined("add", parts)
    if expr.is_Mul:
        return combined("mul", parts)
    if type(expr).__name__ == "OpaqueUnaryFn_sqrt":
        return recording.op("sqrt", parts)[0]
    raise Unsupported(f"a number is {type(expr).__name__}, such as {expr}")


def evaluate(expr: sympy.Expr, values: Mapping[str, int]) -> int:
    """The value of a size in a call."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return values[expr.name]
    return int(expr.xreplace({symbol: sympy.Integer(values[symbol.name]) for symbol in expr.free_symbols}))
