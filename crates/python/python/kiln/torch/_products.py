"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from .. import _kiln
from ._account import Unsupported
from ._graph import Conversion
from ._table import converts


@converts("aten.mm.default", "aten.bmm.default", "aten.matmul.default")
def _matmul(graph: Conversion, node: Node, x: _kiln.Value, y: _kiln.Value) -> _kiln.Value:
    return graph.op("matmul", x, y)


@converts("aten.addmm.default", "aten.baddbmm.default")
def _addmm(
    graph: Conversion, node: Node, bias: _kiln.Value, x: _kiln.Value, y: _kiln.Value, beta: Any = 1, alpha: Any = 1
) -> _kiln.Value:
    product = _scaled(graph, graph.op("matmul", x, y), alpha)
    return product if beta == 0 else graph.op("add", product, _scaled(graph, bias, beta))


def _scaled(graph: Conversion, x: _kiln.Value, scale: Any) -> _kiln.Value:
    return x if scale == 1 else graph.op("mul", x, graph.number(scale, x.dtype))


def gradients(
    graph: Conversion, compute: Callable[..., _kiln.Value], operands: Sequence[_kiln.Value], cotangent: _kiln.Value
) -> list[_kiln.Value]:
    """The gradients of a computation with respect to its operands."""
    # Copies, so that no operand depends on another.
    copies = [graph.op("identity", operand) for operand in operands]
    return graph.recording.gradients(compute(*copies), copies, cotangent)


def spread(numbers: Sequence[int], n_axes: int) -> list[int]:
    """One number per axis."""
    return list(numbers) if len(numbers) == n_axes else [numbers[0]] * n_axes


def _convolved(
    graph: Conversion,
    x: _kiln.Value,
    w: _kiln.Value,
    stride: list[int],
    padding: list[Any],
    dilation: list[int],
    is_transposed: bool,
    output_padding: list[Any],
    groups: int,
) -> _kiln.Value:
    n_axes = x.ndim - 2
    if w.ndim != x.ndim:
        raise Unsupported("a convolution has no batch axis")
    borders = spread(padding, n_axes)
    window: dict[str, Any] = {
        "strides": spread(stride, n_axes),
        "dilations": spread(dilation, n_axes),
        "low": borders,
        "high": borders,
        "groups": groups,
    }
    if is_transposed:
        return graph.op("conv_transpose", x, w, output_padding=spread(output_padding, n_axes), **window)
    return graph.op("conv", x, w, **window)


@converts("aten.convolution.default")
def _convolution(
    graph: Conversion, node: Node, x: _kiln.Value, w: _kiln.Value, bias: _kiln.Value | None, *window: Any
) -> _kiln.Value:
    result = _convolved(graph, x, w, *window)
    if bias is None:
        return result
    column = graph.recording.reshape(bias, [bias.shape[0], *[1] * (result.ndim - 2)])
    return graph.op("add", result, column)


@converts("aten.convolution_backward.default")
def _convolution_backward(
    graph: Conversion, node: Node, slope: _kiln.Value, x: _kiln.Value, w: _kiln.Value, _bias: Any, *rest: Any
) -> list[_kiln.Value | None]:
    *window, wanted = rest
    wants_x, wants_w, wants_bias = wanted
    results: list[_kiln.Value | None] = [None, None, None]
    wanted_operands = [at for at, is_wanted in enumerate((wants_x, wants_w)) if is_wanted]
    if wanted_operands:

        def compute(*copies: _kiln.Value) -> _kiln.Value:
            operands = [x, w]
            for at, copy in zip(wanted_operands, copies):
                operands[at] = copy
            return _convolved(graph, operands[0], operands[1], *window)

        slopes = gradients(graph, compute, [(x, w)[at] for at in wanted_operands], slope)
        for at, one in zip(wanted_operands, slopes):
            results[at] = one
    if wants_bias:
        axes = [axis for axis in range(slope.ndim) if axis != 1]
        results[2] = graph.op("reduce", slope, function="sum", axes=axes)
    return results
