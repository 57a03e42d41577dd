"""Operators that move elements or create tensors."""

from __future__ import annotations

from typing import Any

import sympy
from torch.fx import Node

from .. import _kiln
from .._array import Array
from .._indexing import put_index, take_index
from ._account import Unsupported
from ._graph import Conversion
from ._sizes import expression
from ._table import converts


def _axis(x: _kiln.Value, axis: int, more: int = 0) -> int:
    return axis % (x.ndim + more) if x.ndim + more else 0


@converts(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.squeeze.default",
    "aten.unsqueeze.default",
    "aten.view_copy.default",
)
def _reshape(graph: Conversion, node: Node, x: _kiln.Value, *_: Any) -> _kiln.Value:
    return graph.recording.reshape(x, graph.shape(node))


@converts("aten.expand.default")
def _expand(graph: Conversion, node: Node, x: _kiln.Value, *_: Any, **__: Any) -> _kiln.Value:
    return graph.recording.broadcast_to(x, graph.shape(node))


@converts("aten.permute.default")
def _permute(graph: Conversion, node: Node, x: _kiln.Value, order: list[int]) -> _kiln.Value:
    return graph.op("transpose", x, permutation=[_axis(x, axis) for axis in order])


@converts("aten.transpose.int")
def _transpose(graph: Conversion, node: Node, x: _kiln.Value, first: int, second: int) -> _kiln.Value:
    order = list(range(x.ndim))
    a, b = _axis(x, first), _axis(x, second)
    order[a], order[b] = b, a
    return graph.op("transpose", x, permutation=order)


@converts("aten.t.default")
def _t(graph: Conversion, node: Node, x: _kiln.Value) -> _kiln.Value:
    return _transpose(graph, node, x, 0, 1) if x.ndim == 2 else x


@converts("aten.as_strided.default")
def _as_strided(
    graph: Conversion, node: Node, x: _kiln.Value, _sizes_: Any, _strides: Any, offset: Any = None
) -> _kiln.Value:
    """Only for dense tensors viewed as dense tensors: axes are reordered, and merged or split."""
    source, result = node.args[0].meta["val"], node.meta["val"]
    from_order, to_order = _memory_order(source), _memory_order(result)
    if offset not in (None, 0) or from_order is None or to_order is None:
        raise Unsupported("aten.as_strided.default does not have every element of its operand exactly once")
    memory = graph.op("transpose", x, permutation=from_order) if x.ndim else x
    sizes = graph.shape(node)
    dense = graph.recording.reshape(memory, [sizes[axis] for axis in to_order])
    back = [to_order.index(axis) for axis in range(len(to_order))]
    return graph.op("transpose", dense, permutation=back) if back else dense


def _memory_order(tensor: Any) -> list[int] | None:
    """The axes from the outermost in memory to the innermost, if the tensor is dense."""
    sizes = [expression(size) for size in tensor.shape]
    strides = [expression(stride) for stride in tensor.stride()]
    left = list(range(tensor.ndim))
    order: list[int] = []
    step = sympy.Integer(1)
    while left:
        # Axes of size 1 may have any stride.
        fits = [axis for axis in left if sizes[axis] == 1 or sympy.expand(strides[axis] - step) == 0]
        if not fits:
            return None
        axis = fits[-1]
        order.insert(0, axis)
        left.remove(axis)
        step = step * sizes[axis]
    return order


@converts("aten.slice.Tensor")
def _slice(
    graph: Conversion, node: Node, x: _kiln.Value, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> _kiln.Value:
    axis = _axis(x, axis)
    if start is None:
        start = 0
    if isinstance(start, int) and start < 0:
        return graph.recording.slice(x, axis, start, end, step)
    # The size is known, so the bounds need not be clamped.
    starts: list[Any] = [0] * x.ndim
    steps = [1] * x.ndim
    sizes = list(x.shape)
    starts[axis], steps[axis], sizes[axis] = start, step, graph.shape(node)[axis]
    return graph.op("slice", x, starts=starts, sizes=sizes, steps=steps)


@converts("aten.select.int")
def _select(graph: Conversion, node: Node, x: _kiln.Value, axis: int, index: Any) -> _kiln.Value:
    axis = _axis(x, axis)
    start = x.shape[axis] + index if isinstance(index, int) and index < 0 else index
    return graph.recording.squeeze(graph.recording.slice_axis(x, axis, start, 1), [axis])


@converts("aten.split_with_sizes.default")
def _split(graph: Conversion, node: Node, x: _kiln.Value, sizes: list[Any], axis: int = 0) -> list[_kiln.Value]:
    parts = []
    start: Any = 0
    for size in sizes:
        parts.append(graph.recording.slice_axis(x, _axis(x, axis), start, size))
        start = start + size
    return parts


@converts("aten.split.Tensor")
def _chunks(graph: Conversion, node: Node, x: _kiln.Value, size: Any, axis: int = 0) -> list[_kiln.Value]:
    axis = _axis(x, axis)
    return _split(graph, node, x, [graph.shape(node, index)[axis] for index in range(len(node.meta["val"]))], axis)


@converts("aten.unbind.int")
def _unbind(graph: Conversion, node: Node, x: _kiln.Value, axis: int = 0) -> list[_kiln.Value]:
    return [_select(graph, node, x, axis, index) for index in range(len(node.meta["val"]))]


@converts("aten.cat.default")
def _cat(graph: Conversion, node: Node, parts: list[_kiln.Value], axis: int = 0) -> _kiln.Value:
    dtype = graph.dtype(node)
    rank = node.meta["val"].ndim
    # PyTorch skips empty vectors, even if the other tensors have more axes.
    kept = [graph.value(part, dtype) for part in parts if part.ndim == rank]
    if len(kept) == 1:
        return kept[0]
    return graph.op("concat", *kept, axis=_axis(kept[0], axis))


@converts("aten.stack.default")
def _stack(graph: Conversion, node: Node, parts: list[_kiln.Value], axis: int = 0) -> _kiln.Value:
    axis = _axis(parts[0], axis, more=1)
    dtype = graph.dtype(node)
    wide = [graph.recording.unsqueeze(graph.value(part, dtype), [axis]) for part in parts]
    return wide[0] if len(wide) == 1 else graph.op("concat", *wide, axis=axis)


@converts("aten.constant_pad_nd.default")
def _constant_pad(graph: Conversion, node: Node, x: _kiln.Value, widths: list[Any], value: Any = 0) -> _kiln.Value:
    return _padded(graph, x, widths, "constant", value)


@converts("aten.reflection_pad1d.default", "aten.reflection_pad2d.default")
def _reflection_pad(graph: Conversion, node: Node, x: _kiln.Value, widths: list[Any]) -> _kiln.Value:
    return _padded(graph, x, widths, "reflect")


@converts("aten.replication_pad1d.default", "aten.replication_pad2d.default")
def _replication_pad(graph: Conversion, node: Node, x: _kiln.Value, widths: list[Any]) -> _kiln.Value:
    return _padded(graph, x, widths, "edge")


def _padded(graph: Conversion, x: _kiln.Value, widths: list[Any], mode: str, value: Any = 0) -> _kiln.Value:
    low: list[Any] = [0] * x.ndim
    high: list[Any] = [0] * x.ndim
    # Pairs of (before, after), from the last axis on.
    for at in range(len(widths) // 2):
        low[x.ndim - 1 - at], high[x.ndim - 1 - at] = widths[2 * at], widths[2 * at + 1]
    # Negative widths crop.
    for axis in range(x.ndim):
        cut_low = -low[axis] if isinstance(low[axis], int) and low[axis] < 0 else 0
        cut_high = -high[axis] if isinstance(high[axis], int) and high[axis] < 0 else 0
        if cut_low or cut_high:
            x = graph.recording.slice_axis(x, axis, cut_low, x.shape[axis] - cut_low - cut_high)
            low[axis], high[axis] = (0 if cut_low else low[axis]), (0 if cut_high else high[axis])
    return graph.op("pad", x, graph.number(value, x.dtype), low=low, high=high, mode=mode)


@converts("aten.flip.default")
def _flip(graph: Conversion, node: Node, x: _kiln.Value, axes: list[int]) -> _kiln.Value:
    for axis in axes:
        x = graph.recording.slice(x, axis, None, None, -1)
    return x


@converts("aten.repeat.default")
def _repeat(graph: Conversion, node: Node, x: _kiln.Value, repeats: list[Any]) -> _kiln.Value:
    if len(repeats) > x.ndim:
        x = graph.recording.unsqueeze(x, list(range(len(repeats) - x.ndim)))
    return graph.recording.tile(x, repeats)


@converts("aten.roll.default")
def _roll(graph: Conversion, node: Node, x: _kiln.Value, shifts: list[Any], axes: Any = ()) -> _kiln.Value:
    if not axes:
        flat = graph.recording.reshape(x, [None])
        return graph.recording.reshape(_rolled(graph, flat, shifts[0], 0), list(x.shape))
    for shift, axis in zip(shifts, axes):
        x = _rolled(graph, x, shift, _axis(x, axis))
    return x


def _rolled(graph: Conversion, x: _kiln.Value, shift: Any, axis: int) -> _kiln.Value:
    size = x.shape[axis]
    start = (0 - shift) % (max(size, 1) if isinstance(size, int) else size.max(1))
    parts = [graph.recording.slice(x, axis, start, None, 1), graph.recording.slice(x, axis, None, start, 1)]
    return graph.op("concat", *parts, axis=axis)


@converts("aten.diagonal.default")
def _diagonal(graph: Conversion, node: Node, x: _kiln.Value, offset: int = 0, first: int = 0, second: int = 1) -> _kiln.Value:
    from .. import numpy as functions

    array = functions.diagonal(Array(graph.recording, x), offset, _axis(x, first), _axis(x, second))
    return array._value


# Indexing.


@converts("aten.embedding.default")
def _embedding(graph: Conversion, node: Node, table: _kiln.Value, indices: _kiln.Value, *_: Any) -> _kiln.Value:
    return graph.op("gather", table, indices, axis=0)


@converts("aten.index_select.default")
def _index_select(graph: Conversion, node: Node, x: _kiln.Value, axis: int, indices: _kiln.Value) -> _kiln.Value:
    return graph.op("gather", x, indices, axis=_axis(x, axis))


@converts("aten.gather.default")
def _gather(graph: Conversion, node: Node, x: _kiln.Value, axis: int, indices: _kiln.Value, **_: Any) -> _kiln.Value:
    return graph.op("gather_elements", x, indices, axis=_axis(x, axis))


@converts("aten.index.Tensor")
def _index(graph: Conversion, node: Node, x: _kiln.Value, indices: list[Any]) -> _kiln.Value:
    return take_index(Array(graph.recording, x), _key(graph, indices))._value


@converts("aten.index_put.default")
def _index_put(
    graph: Conversion, node: Node, x: _kiln.Value, indices: list[Any], update: _kiln.Value, accumulate: bool = False
) -> _kiln.Value:
    first = indices[0] if len(indices) == 1 else None
    if isinstance(first, _kiln.Value) and first.dtype == "bool":
        if accumulate or update.ndim > 0 or first.ndim > x.ndim:
            raise Unsupported("masked elements are updated with a tensor")
        mask = graph.recording.reshape(first, [*first.shape, *[1] * (x.ndim - first.ndim)])
        return graph.op("select", mask, graph.value(update, x.dtype), x)
    array = Array(graph.recording, x)
    new = Array(graph.recording, update)
    return put_index(array, _key(graph, indices), new, "add" if accumulate else "set")._value


def _key(graph: Conversion, indices: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if one is None else Array(graph.recording, one) for one in indices)


def _scattered(combine: str) -> Any:
    def convert(graph: Conversion, node: Node, x: _kiln.Value, axis: int, indices: _kiln.Value, update: Any) -> _kiln.Value:
        if isinstance(update, _kiln.Value) and update.ndim == indices.ndim:
            for at, size in enumerate(indices.shape):
                update = graph.recording.slice_axis(update, at, 0, size)
        else:
            update = graph.recording.broadcast_to(graph.value(update, x.dtype), list(indices.shape))
        return graph.op("scatter_elements", x, indices, update, axis=_axis(x, axis), combine=combine)

    return convert


converts("aten.scatter.src", "aten.scatter.value")(_scattered("set"))
converts("aten.scatter_add.default")(_scattered("add"))


@converts("aten.slice_scatter.default")
def _slice_scatter(
    graph: Conversion, node: Node, x: _kiln.Value, update: _kiln.Value, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> _kiln.Value:
    key = (slice(None),) * _axis(x, axis) + (slice(start, end, step),)
    return put_index(Array(graph.recording, x), key, Array(graph.recording, update), "set")._value


@converts("aten.select_scatter.default")
def _select_scatter(graph: Conversion, node: Node, x: _kiln.Value, update: _kiln.Value, axis: int, index: Any) -> _kiln.Value:
    key = (slice(None),) * _axis(x, axis) + (index,)
    return put_index(Array(graph.recording, x), key, Array(graph.recording, update), "set")._value


# Creation.


@converts("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def _full(graph: Conversion, node: Node, first: Any, *rest: Any, **_: Any) -> _kiln.Value:
    value = rest[-1]
    return graph.recording.broadcast_to(graph.value(value, graph.dtype(node)), graph.shape(node))


@converts(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
)
def _zeros(graph: Conversion, node: Node, *_: Any, **__: Any) -> _kiln.Value:
    return graph.recording.broadcast_to(graph.number(0, graph.dtype(node)), graph.shape(node))


@converts("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(graph: Conversion, node: Node, *_: Any, **__: Any) -> _kiln.Value:
    return graph.recording.broadcast_to(graph.number(1, graph.dtype(node)), graph.shape(node))


@converts("aten.scalar_tensor.default")
def _scalar(graph: Conversion, node: Node, value: Any, **_: Any) -> _kiln.Value:
    return graph.value(value, graph.dtype(node))


@converts("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(graph: Conversion, node: Node, x: _kiln.Value, value: Any) -> _kiln.Value:
    return graph.recording.broadcast_to(graph.value(value, graph.dtype(node)), graph.shape(node))


@converts("aten.arange.start_step", "aten.arange.default", "aten.arange.start", "prims.iota.default")
def _arange(graph: Conversion, node: Node, *args: Any, **options: Any) -> _kiln.Value:
    if str(node.target) == "prims.iota.default":
        start, step = options["start"], options["step"]
    else:
        start = 0 if len(args) == 1 else args[0]
        step = args[2] if len(args) > 2 else 1
    dtype = graph.dtype(node)
    if any(isinstance(part, float) for part in args) and dtype != "float64":
        # PyTorch computes in float64 and rounds once.
        positions = graph.op("iota", dims=graph.shape(node), axis=0, dtype="float64")
        return graph.recording.cast(_spaced(graph, positions, start, step), dtype)
    return _spaced(graph, graph.op("iota", dims=graph.shape(node), axis=0, dtype=dtype), start, step)


def _spaced(graph: Conversion, positions: _kiln.Value, start: Any, step: Any) -> _kiln.Value:
    if not (isinstance(step, (int, float)) and step == 1):
        positions = graph.op("mul", positions, graph.value(step, positions.dtype))
    if isinstance(start, (int, float)) and start == 0:
        return positions
    return graph.op("add", positions, graph.value(start, positions.dtype))


@converts("aten.tril.default", "aten.triu.default")
def _triangle(graph: Conversion, node: Node, x: _kiln.Value, offset: int = 0) -> _kiln.Value:
    rows, columns = x.shape[-2:]
    row = graph.op("iota", dims=[rows, columns], axis=0, dtype="int64")
    column = graph.op("iota", dims=[rows, columns], axis=1, dtype="int64")
    distance = graph.op("sub", column, row)
    compared = "le" if "tril" in str(node.target) else "ge"
    kept = graph.op(compared, distance, graph.number(offset, "int64"))
    return graph.op("select", kept, x, graph.number(0, x.dtype))


@converts("aten.unfold.default")
def _unfold(graph: Conversion, node: Node, x: _kiln.Value, axis: int, size: int, step: int) -> _kiln.Value:
    axis = _axis(x, axis)
    n_windows = graph.shape(node)[axis]
    first = graph.op("iota", dims=[n_windows, size], axis=0, dtype="int64")
    within = graph.op("iota", dims=[n_windows, size], axis=1, dtype="int64")
    positions = graph.op("add", graph.op("mul", first, graph.number(step, "int64")), within)
    windows = graph.op("gather", x, positions, axis=axis)
    order = [at for at in range(x.ndim + 1) if at != axis + 1] + [axis + 1]
    return graph.op("transpose", windows, permutation=order)
