"""Reductions, cumulative sums and sorting."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from .. import _kiln
from ._graph import Conversion
from ._movement import _axis
from ._table import converts


def _axes(x: _kiln.Value, axes: Any) -> list[int]:
    if axes is None or axes == []:
        return list(range(x.ndim))
    given = axes if isinstance(axes, list) else [axes]
    return sorted({_axis(x, axis) for axis in given}) if x.ndim else []


def _reduced(graph: Conversion, x: _kiln.Value, function: str, axes: Any, keepdim: bool) -> _kiln.Value:
    return graph.op("reduce", x, function=function, axes=_axes(x, axes), keep_dims=bool(keepdim))


def _reduction(function: str) -> Any:
    def convert(
        graph: Conversion, node: Node, x: _kiln.Value, axes: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> _kiln.Value:
        return _reduced(graph, graph.value(x, graph.dtype(node)), function, axes, keepdim)

    return convert


converts("aten.sum.dim_IntList", "aten.sum.default")(_reduction("sum"))
converts("aten.mean.dim", "aten.mean.default")(_reduction("mean"))
converts("aten.prod.default", "aten.prod.dim_int")(_reduction("product"))
converts("aten.any.default", "aten.any.dim", "aten.any.dims")(_reduction("any"))
converts("aten.all.default", "aten.all.dim", "aten.all.dims")(_reduction("all"))


def _extremum(function: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, axes: Any = None, keepdim: bool = False) -> _kiln.Value:
        if x.dtype == "bool":
            return _reduced(graph, x, {"max": "any", "min": "all"}[function], axes, keepdim)
        return _reduced(graph, x, function, axes, keepdim)

    return convert


converts("aten.amax.default", "aten.max.default")(_extremum("max"))
converts("aten.amin.default", "aten.min.default")(_extremum("min"))


def _located(function: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, axis: int, keepdim: bool = False) -> list[_kiln.Value]:
        axis = _axis(x, axis)
        values = _reduced(graph, x, function, [axis], keepdim)
        return [values, graph.op("arg_reduce", x, extremum=function, axis=axis, keep_dims=keepdim)]

    return convert


converts("aten.max.dim")(_located("max"))
converts("aten.min.dim")(_located("min"))


def _argument(function: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, axis: int | None = None, keepdim: bool = False) -> _kiln.Value:
        if axis is None:
            x, axis = graph.recording.reshape(x, [None]), 0
            found = graph.op("arg_reduce", x, extremum=function, axis=0, keep_dims=False)
            return graph.recording.reshape(found, graph.shape(node))
        return graph.op("arg_reduce", x, extremum=function, axis=_axis(x, axis), keep_dims=keepdim)

    return convert


converts("aten.argmax.default")(_argument("max"))
converts("aten.argmin.default")(_argument("min"))


@converts("aten._safe_softmax.default")
def _safe_softmax(graph: Conversion, node: Node, x: _kiln.Value, axis: int, dtype: Any = None) -> _kiln.Value:
    """A softmax that is 0 where all scores are minus infinity, which happens in fully masked rows."""
    axis = _axis(x, axis)
    x = graph.value(x, graph.dtype(node))
    result = graph.recording.softmax(x, axis)
    scores = node.args[0]
    while isinstance(scores, Node) and str(scores.target).startswith(("aten.view", "aten.clone", "aten.expand")):
        scores = scores.args[0]
    if isinstance(scores, Node) and str(scores.target).startswith(("aten.bmm", "aten.mm", "aten.mul", "aten.div")):
        # The scores are products, without a mask.
        return result
    is_any = graph.op("ne", x, graph.number(float("-inf"), x.dtype))
    is_any = graph.op("reduce", is_any, function="any", axes=[axis], keep_dims=True)
    return graph.op("select", is_any, result, graph.number(0, x.dtype))


def _moments(
    graph: Conversion, x: _kiln.Value, axes: Any, correction: Any, keepdim: bool
) -> tuple[_kiln.Value, _kiln.Value]:
    """The variance and the mean."""
    mean = _reduced(graph, x, "mean", axes, True)
    squares = graph.op("square", graph.op("sub", x, mean))
    if correction == 0:
        variance = _reduced(graph, squares, "mean", axes, keepdim)
    else:
        count: Any = 1
        for axis in _axes(x, axes):
            count = count * x.shape[axis]
        free = graph.op("sub", graph.value(count, x.dtype), graph.number(correction, x.dtype))
        free = graph.op("max", free, graph.number(0, x.dtype))
        variance = graph.op("div", _reduced(graph, squares, "sum", axes, keepdim), free)
    if not keepdim:
        mean = graph.recording.squeeze(mean, _axes(x, axes))
    return variance, mean


@converts("aten.var.correction")
def _var(graph: Conversion, node: Node, x: _kiln.Value, axes: Any = None, correction: Any = 1, keepdim: bool = False) -> _kiln.Value:
    return _moments(graph, x, axes, 1 if correction is None else correction, keepdim)[0]


@converts("aten.var_mean.correction")
def _var_mean(
    graph: Conversion, node: Node, x: _kiln.Value, axes: Any = None, correction: Any = 1, keepdim: bool = False
) -> list[_kiln.Value]:
    return list(_moments(graph, x, axes, 1 if correction is None else correction, keepdim))


@converts("aten.var.dim")
def _var_dim(
    graph: Conversion, node: Node, x: _kiln.Value, axes: Any = None, unbiased: bool = True, keepdim: bool = False
) -> _kiln.Value:
    return _moments(graph, x, axes, int(unbiased), keepdim)[0]


def _running(function: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, axis: int, dtype: Any = None) -> _kiln.Value:
        x = graph.value(x, graph.dtype(node))
        return graph.op("cumulate", x, function=function, axis=_axis(x, axis)) if x.ndim else x

    return convert


converts("aten.cumsum.default")(_running("sum"))
converts("aten.cumprod.default")(_running("product"))


@converts("aten.topk.default")
def _topk(
    graph: Conversion, node: Node, x: _kiln.Value, k: Any, axis: int = -1, largest: bool = True, sorted: bool = True
) -> list[_kiln.Value]:
    extremum = "max" if largest else "min"
    return graph.recording.op("top_k", [x], k=k, axis=_axis(x, axis), extremum=extremum)


@converts("aten.sort.default", "aten.sort.stable")
def _sort(
    graph: Conversion, node: Node, x: _kiln.Value, axis: int = -1, descending: bool = False, stable: bool = False
) -> list[_kiln.Value]:
    axis = _axis(x, axis)
    extremum = "max" if descending else "min"
    return graph.recording.op("top_k", [x], k=x.shape[axis], axis=axis, extremum=extremum)
