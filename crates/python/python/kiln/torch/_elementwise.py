"""Elementwise operators: operands are converted to the dtype of the result, as in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from .. import _kiln
from ._account import Unsupported
from ._graph import Conversion, dtype_name
from ._table import TABLE, converts

_UNARY = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "ceil": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "floor": "floor",
    "log": "log",
    "log1p": "log1p",
    "log2": "log2",
    "mish": "mish",
    "neg": "neg",
    "relu": "relu",
    "round": "round_even",
    "rsqrt": "rsqrt",
    "sigmoid": "sigmoid",
    "sign": "sign",
    "silu": "silu",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
    "trunc": "trunc",
}

#: Operators that leave integers unchanged.
_ROUNDING = {"ceil", "floor", "round_even", "trunc"}


def _unary(mnemonic: str) -> Any:
    def convert(graph: Conversion, node: Node, x: Any) -> _kiln.Value:
        dtype = graph.dtype(node)
        x = graph.value(x, dtype)
        if mnemonic in _ROUNDING and "float" not in dtype:
            return x
        return graph.op(mnemonic, x)

    return convert


for _name, _mnemonic in _UNARY.items():
    TABLE[f"aten.{_name}.default"] = _unary(_mnemonic)

_BINARY = {
    "atan2.default": "atan2",
    "fmod.Scalar": "rem",
    "fmod.Tensor": "rem",
    "maximum.default": "max",
    "minimum.default": "min",
    "mul.Scalar": "mul",
    "mul.Tensor": "mul",
    "pow.Scalar": "pow",
    "pow.Tensor_Tensor": "pow",
    "remainder.Scalar": "floor_mod",
    "remainder.Tensor": "floor_mod",
}

#: The operators on booleans.
_LOGICAL = {"max": "or", "min": "and", "mul": "and", "add": "or", "bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


def _binary(mnemonic: str) -> Any:
    def convert(graph: Conversion, node: Node, x: Any, y: Any) -> _kiln.Value:
        return _combined(graph, node, mnemonic, x, y)

    return convert


def _combined(graph: Conversion, node: Node, mnemonic: str, x: Any, y: Any) -> _kiln.Value:
    dtype = graph.dtype(node)
    used = _LOGICAL.get(mnemonic, mnemonic) if dtype == "bool" else mnemonic
    return graph.op(used, graph.value(x, dtype), graph.value(y, dtype))


for _name, _mnemonic in _BINARY.items():
    TABLE[f"aten.{_name}"] = _binary(_mnemonic)
for _name, _mnemonic in {"and": "bit_and", "or": "bit_or", "xor": "bit_xor"}.items():
    TABLE[f"aten.bitwise_{_name}.Tensor"] = _binary(_mnemonic)
    TABLE[f"aten.bitwise_{_name}.Scalar"] = _binary(_mnemonic)
TABLE["aten.bitwise_left_shift.Tensor"] = _binary("shl")
TABLE["aten.bitwise_right_shift.Tensor"] = _binary("shr")


@converts("aten.bitwise_not.default")
def _bitwise_not(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    return graph.op("not" if x.dtype == "bool" else "bit_not", x)


@converts("aten.add.Tensor", "aten.add.Scalar")
def _add(graph: Conversion, node: Node, x: Any, y: Any, alpha: Any = 1) -> _kiln.Value:
    return _combined(graph, node, "add", x, _scaled(graph, node, y, alpha))


@converts("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(graph: Conversion, node: Node, x: Any, y: Any, alpha: Any = 1) -> _kiln.Value:
    return _combined(graph, node, "sub", x, _scaled(graph, node, y, alpha))


def _scaled(graph: Conversion, node: Node, y: Any, alpha: Any) -> Any:
    if isinstance(alpha, (int, float)) and alpha == 1:
        return y
    dtype = graph.dtype(node)
    return graph.op("mul", graph.value(y, dtype), graph.value(alpha, dtype))


@converts(
    "aten.div.Tensor",
    "aten.div.Scalar",
    "aten.div.Tensor_mode",
    "aten.div.Scalar_mode",
    "aten.true_divide.Tensor",
    "aten.true_divide.Scalar",
)
def _div(graph: Conversion, node: Node, x: Any, y: Any, rounding_mode: str | None = None) -> _kiln.Value:
    if rounding_mode == "floor":
        return _combined(graph, node, "floor_div", x, y)
    quotient = _combined(graph, node, "div", x, y)
    is_whole = rounding_mode == "trunc" and "float" in quotient.dtype
    return graph.op("trunc", quotient) if is_whole else quotient


@converts("aten.pow.Tensor_Scalar")
def _power(graph: Conversion, node: Node, x: Any, exponent: Any) -> _kiln.Value:
    dtype = graph.dtype(node)
    x = graph.value(x, dtype)
    known = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    is_whole = "float" not in dtype
    mnemonic = known.get(exponent) if isinstance(exponent, (int, float)) else None
    if exponent == 1:
        return x
    if mnemonic is not None and not (is_whole and exponent != 2):
        return graph.op(mnemonic, x)
    if exponent == 3:
        return graph.op("mul", graph.op("square", x), x)
    return graph.op("pow", x, graph.value(exponent, dtype))


@converts("aten.reciprocal.default")
def _reciprocal(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    dtype = graph.dtype(node)
    return graph.op("div", graph.number(1, dtype), graph.value(x, dtype))


@converts("aten.log10.default")
def _log10(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    dtype = graph.dtype(node)
    return graph.op("mul", graph.op("log", graph.value(x, dtype)), graph.number(1 / math.log(10), dtype))


def _comparison(mnemonic: str) -> Any:
    def convert(graph: Conversion, node: Node, x: Any, y: Any) -> _kiln.Value:
        dtype = _common_dtype(node)
        return graph.op(mnemonic, graph.value(x, dtype), graph.value(y, dtype))

    return convert


def _common_dtype(node: Node) -> str:
    """The dtype that PyTorch promotes the operands to."""
    operands = [argument.meta["val"] if isinstance(argument, Node) else argument for argument in node.args]
    return dtype_name(torch.result_type(*operands))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    TABLE[f"aten.{_name}.Tensor"] = TABLE[f"aten.{_name}.Scalar"] = _comparison(_name)


def _test(mnemonic: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
        if "float" not in x.dtype:
            return graph.recording.broadcast_to(graph.number(False, "bool"), list(x.shape))
        return graph.op(mnemonic, x)

    return convert


TABLE["aten.isnan.default"] = _test("is_nan")
TABLE["aten.isinf.default"] = _test("is_inf")


def _logical(mnemonic: str) -> Any:
    def convert(graph: Conversion, node: Node, *operands: Any) -> _kiln.Value:
        return graph.op(mnemonic, *(graph.value(operand, "bool") for operand in operands))

    return convert


for _name in ("and", "or", "xor", "not"):
    TABLE[f"aten.logical_{_name}.default"] = _logical(_name)


@converts("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def _where(graph: Conversion, node: Node, condition: _kiln.Value, x: Any, y: Any) -> _kiln.Value:
    dtype = graph.dtype(node)
    return graph.op("select", graph.value(condition, "bool"), graph.value(x, dtype), graph.value(y, dtype))


@converts("aten.clamp.default", "aten.clamp.Tensor")
def _clamp(graph: Conversion, node: Node, x: _kiln.Value, min: Any = None, max: Any = None) -> _kiln.Value:
    dtype = graph.dtype(node)
    x = graph.value(x, dtype)
    if min is not None:
        x = graph.op("max", x, graph.value(min, dtype))
    return x if max is None else graph.op("min", x, graph.value(max, dtype))


@converts("aten.hardtanh.default")
def _hardtanh(graph: Conversion, node: Node, x: _kiln.Value, least: Any = -1, most: Any = 1) -> _kiln.Value:
    return _clamp(graph, node, x, least, most)


@converts("aten.gelu.default")
def _gelu(graph: Conversion, node: Node, x: _kiln.Value, approximate: str = "none") -> _kiln.Value:
    return graph.op("gelu" if approximate == "none" else "gelu_tanh", x)


@converts("aten.leaky_relu.default")
def _leaky_relu(graph: Conversion, node: Node, x: _kiln.Value, slope: float = 0.01) -> _kiln.Value:
    return graph.op("leaky_relu", x, alpha=float(slope))


@converts("aten.elu.default")
def _elu(
    graph: Conversion, node: Node, x: _kiln.Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> _kiln.Value:
    if input_scale != 1:
        raise Unsupported("elu scales its operand")
    result = graph.op("elu", x, alpha=float(alpha))
    return result if scale == 1 else graph.op("mul", result, graph.number(scale, x.dtype))


@converts("aten.softplus.default")
def _softplus(graph: Conversion, node: Node, x: _kiln.Value, beta: float = 1, threshold: float = 20) -> _kiln.Value:
    scaled = graph.op("mul", x, graph.number(beta, x.dtype))
    smooth = graph.op("div", graph.op("softplus", scaled), graph.number(beta, x.dtype))
    return graph.op("select", graph.op("gt", scaled, graph.number(threshold, x.dtype)), x, smooth)


def _sixth(graph: Conversion, x: _kiln.Value) -> _kiln.Value:
    """min(max(x + 3, 0), 6) / 6."""
    dtype = x.dtype
    shifted = graph.op("max", graph.op("add", x, graph.number(3, dtype)), graph.number(0, dtype))
    return graph.op("div", graph.op("min", shifted, graph.number(6, dtype)), graph.number(6, dtype))


@converts("aten.hardsigmoid.default")
def _hardsigmoid(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    return _sixth(graph, x)


@converts("aten.hardswish.default")
def _hardswish(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    return graph.op("mul", x, _sixth(graph, x))


@converts(
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
    "aten._to_copy.default",
    "prims.convert_element_type.default",
    "prims.device_put.default",
)
def _converted(graph: Conversion, node: Node, x: Any, *_: Any, **options: Any) -> _kiln.Value:
    device = options.get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a tensor is moved to {device}")
    return graph.value(x, graph.dtype(node))


@converts("aten.copy.default")
def _copied(graph: Conversion, node: Node, into: _kiln.Value, x: _kiln.Value, non_blocking: bool = False) -> _kiln.Value:
    return graph.recording.broadcast_to(graph.value(x, graph.dtype(node)), graph.shape(node))
