"""Pooling and resampling."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from .. import _kiln
from ._account import Unsupported
from ._graph import Conversion
from ._products import gradients, spread
from ._table import converts


def _window(x: _kiln.Value, n_axes: int, size: list[int], stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    if x.ndim != n_axes + 2:
        raise Unsupported("a pooling has no batch axis")
    sizes = spread(size, n_axes)
    borders = spread(padding or [0], n_axes)
    return {
        "size": sizes,
        "strides": spread(stride, n_axes) if stride else sizes,
        "dilations": spread(dilation or [1], n_axes),
        "low": borders,
        "high": borders,
    }


def _rounded_up(window: dict[str, Any], spatial: list[Any], results: list[Any]) -> dict[str, Any]:
    """A window with more padding at the end, so that an incomplete last window also gives a result."""
    high = []
    for axis, (before, after) in enumerate(zip(spatial, results)):
        reach = window["dilations"][axis] * (window["size"][axis] - 1) + 1
        missing = (after - 1) * window["strides"][axis] + reach - before - window["low"][axis]
        high.append(max(missing, 0) if isinstance(missing, int) else missing.max(0))
    return {**window, "high": high}


@converts("aten.max_pool2d_with_indices.default")
def _max_pool(
    graph: Conversion,
    node: Node,
    x: _kiln.Value,
    size: list[int],
    stride: Any = None,
    padding: Any = None,
    dilation: Any = None,
    ceil_mode: bool = False,
) -> list[_kiln.Value]:
    window = _window(x, 2, size, stride, padding, dilation)
    if ceil_mode:
        window = _rounded_up(window, list(x.shape[2:]), graph.shape(node, 0)[2:])
    return [graph.op("pool", x, function="max", **window), graph.op("arg_pool", x, **window)]


@converts("aten.max_pool2d_with_indices_backward.default")
def _max_pool_backward(graph: Conversion, node: Node, slope: _kiln.Value, x: _kiln.Value, *rest: Any) -> _kiln.Value:
    indices = rest[-1]
    recording = graph.recording
    outer = list(x.shape[:2])
    flat = recording.broadcast_to(graph.number(0, x.dtype), [*outer, x.shape[2] * x.shape[3]])
    positions = recording.reshape(indices, [*outer, indices.shape[2] * indices.shape[3]])
    update = recording.reshape(slope, [*outer, slope.shape[2] * slope.shape[3]])
    added = graph.op("scatter_elements", flat, positions, update, axis=2, combine="add")
    return recording.reshape(added, list(x.shape))


def _mean(graph: Conversion, x: _kiln.Value, n_axes: int, options: tuple[Any, ...]) -> _kiln.Value:
    given: list[Any] = [*options, *_MEAN_DEFAULTS[len(options) :]]
    size, stride, padding, ceil_mode, count_include_pad, divisor = given
    if divisor is not None:
        raise Unsupported("an average pooling overrides its divisor")
    if ceil_mode:
        raise Unsupported("an average pooling rounds its output size up")
    function = "mean_with_padding" if count_include_pad else "mean"
    return graph.op("pool", x, function=function, **_window(x, n_axes, size, stride, padding, None))


#: For the window's size, its stride, the padding, whether sizes round up, whether padding counts, and the divisor.
_MEAN_DEFAULTS = (None, None, None, False, True, None)


def _mean_pool(n_axes: int) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, *options: Any) -> _kiln.Value:
        return _mean(graph, x, n_axes, options)

    return convert


def _mean_pool_backward(n_axes: int) -> Any:
    def convert(graph: Conversion, node: Node, slope: _kiln.Value, x: _kiln.Value, *options: Any) -> _kiln.Value:
        return gradients(graph, lambda copy: _mean(graph, copy, n_axes, options), [x], slope)[0]

    return convert


for _n_axes in (1, 2, 3):
    converts(f"aten.avg_pool{_n_axes}d.default")(_mean_pool(_n_axes))
    converts(f"aten.avg_pool{_n_axes}d_backward.default")(_mean_pool_backward(_n_axes))


def _adaptive(graph: Conversion, x: _kiln.Value, sizes: list[Any]) -> _kiln.Value:
    """Means over evenly spaced windows: of each row, then of each column."""
    if all(isinstance(size, int) and size == 1 for size in sizes):
        axes = list(range(x.ndim - len(sizes), x.ndim))
        return graph.op("reduce", x, function="mean", axes=axes, keep_dims=True)
    for size in reversed(sizes):
        x = graph.op("matmul", x, _windows_of(graph, x.shape[-1], size, x.dtype))
        order = list(range(x.ndim))
        order[-2:] = [x.ndim - 1, x.ndim - 2]
        x = graph.op("transpose", x, permutation=order)
    return x


def _windows_of(graph: Conversion, size: Any, count: Any, dtype: str) -> _kiln.Value:
    """The weight of each element of an axis in each window: ``[size, count]``."""

    def index(axis: int) -> _kiln.Value:
        return graph.op("iota", dims=[size, count], axis=axis, dtype="int64")

    whole, parts = graph.value(size, "int64"), graph.value(count, "int64")
    one = graph.number(1, "int64")
    at, window = index(0), index(1)
    first = graph.op("floor_div", graph.op("mul", window, whole), parts)
    after = graph.op("mul", graph.op("add", window, one), whole)
    after = graph.op("floor_div", graph.op("sub", graph.op("add", after, parts), one), parts)
    is_in = graph.op("and", graph.op("ge", at, first), graph.op("lt", at, after))
    width = graph.recording.cast(graph.op("sub", after, first), dtype)
    return graph.op("div", graph.recording.cast(is_in, dtype), width)


@converts("aten._adaptive_avg_pool2d.default")
def _adaptive_avg_pool(graph: Conversion, node: Node, x: _kiln.Value, sizes: list[Any]) -> _kiln.Value:
    return _adaptive(graph, x, sizes)


@converts("aten._adaptive_avg_pool2d_backward.default")
def _adaptive_avg_pool_backward(graph: Conversion, node: Node, slope: _kiln.Value, x: _kiln.Value) -> _kiln.Value:
    sizes = list(slope.shape[-2:])
    return gradients(graph, lambda copy: _adaptive(graph, copy, sizes), [x], slope)[0]


def _resized(
    graph: Conversion, x: _kiln.Value, sizes: list[Any], mode: str, align_corners: bool, scales: list[float | None]
) -> _kiln.Value:
    axes = list(range(x.ndim - len(sizes), x.ndim))
    if mode == "nearest":
        coordinates = "asymmetric"
    else:
        coordinates = "align_corners" if align_corners else "half_pixel"
    stated = [0.0 if scale is None or align_corners else float(scale) for scale in scales]
    return graph.op(
        "resize", x, axes=axes, sizes=sizes, scales=stated, mode=mode, coordinates=coordinates, rounding="floor"
    )


def _output_sizes(graph: Conversion, node: Node, n_axes: int) -> list[Any]:
    return graph.shape(node)[-n_axes:]


@converts("aten.upsample_nearest1d.default", "aten.upsample_nearest2d.default", "aten.upsample_nearest3d.default")
def _nearest(graph: Conversion, node: Node, x: _kiln.Value, _sizes: Any, *scales: Any) -> _kiln.Value:
    n_axes = x.ndim - 2
    given = list(scales) + [None] * (n_axes - len(scales))
    return _resized(graph, x, _output_sizes(graph, node, n_axes), "nearest", False, given)


@converts("aten.upsample_nearest2d.vec", "aten.upsample_nearest1d.vec")
def _nearest_vec(graph: Conversion, node: Node, x: _kiln.Value, _sizes: Any, scales: Any) -> _kiln.Value:
    n_axes = x.ndim - 2
    return _resized(graph, x, _output_sizes(graph, node, n_axes), "nearest", False, list(scales or [None] * n_axes))


@converts("aten.upsample_nearest2d_backward.default")
def _nearest_backward(
    graph: Conversion, node: Node, slope: _kiln.Value, _sizes: Any, _input_sizes: Any, *scales: Any
) -> _kiln.Value:
    x = graph.recording.broadcast_to(graph.number(0, slope.dtype), graph.shape(node))
    given = list(scales) + [None] * (2 - len(scales))
    return gradients(
        graph, lambda copy: _resized(graph, copy, list(slope.shape[-2:]), "nearest", False, given), [x], slope
    )[0]


@converts("aten.upsample_bilinear2d.default", "aten.upsample_linear1d.default")
def _linear(graph: Conversion, node: Node, x: _kiln.Value, _sizes: Any, align_corners: bool, *scales: Any) -> _kiln.Value:
    n_axes = x.ndim - 2
    given = list(scales) + [None] * (n_axes - len(scales))
    return _resized(graph, x, _output_sizes(graph, node, n_axes), "linear", align_corners, given)


@converts("aten.upsample_bilinear2d.vec")
def _linear_vec(graph: Conversion, node: Node, x: _kiln.Value, _sizes: Any, align_corners: bool, scales: Any) -> _kiln.Value:
    n_axes = x.ndim - 2
    return _resized(graph, x, _output_sizes(graph, node, n_axes), "linear", align_corners, list(scales or [None] * n_axes))


@converts("aten.upsample_bilinear2d_backward.default")
def _linear_backward(
    graph: Conversion, node: Node, slope: _kiln.Value, _sizes: Any, _input_sizes: Any, align_corners: bool, *scales: Any
) -> _kiln.Value:
    x = graph.recording.broadcast_to(graph.number(0, slope.dtype), graph.shape(node))
    given = list(scales) + [None] * (2 - len(scales))
    return gradients(
        graph, lambda copy: _resized(graph, copy, list(slope.shape[-2:]), "linear", align_corners, given), [x], slope
    )[0]
