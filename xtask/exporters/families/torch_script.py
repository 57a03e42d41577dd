"""Patterns of torch's exporters: size arithmetic, masks, branches and loops."""

import numpy as np
from onnx import helper

from build import BOOL, END, FLOAT, INT64, Graph, floats, pick


def size_arithmetic(rng, opset):
    """Attention heads split and merged by computed sizes."""
    g, heads = Graph(rng, opset), pick(rng, 1, 2, 4)
    x = g.input("x", ["batch", "seq", 8])
    batch, seq = g.size(x, 0), g.size(x, 1)
    h = g.op("Reshape", g.linear(x, 8, 8), g.shape_of(batch, seq, heads, 8 // heads))
    h = g.op("Transpose", h, perm=[0, 2, 1, 3])
    scores = g.op("MatMul", h, g.op("Transpose", h, perm=[0, 1, 3, 2]))
    h = g.op("MatMul", g.op("Softmax", scores, axis=-1), h)
    h = g.op("Transpose", h, perm=[0, 2, 1, 3])
    h = g.op("Reshape", h, g.shape_of(batch, seq, pick(rng, 8, -1)))
    g.output(g.layer_norm(g.op("Add", x, h), 8) if rng.integers(2) else h)
    rows = g.op("Reshape", h, g.shape_of(g.op("Mul", batch, seq), -1))
    g.output(g.op("Reshape", rows, g.shape_of(-1, g.op("Div", g.op("Mul", seq, g.int(8)), g.int(pick(rng, 2, 4))))))
    return g, lambda r: {"x": floats(r, r.integers(1, 5), r.integers(1, 12), 8)}


def dynamo_sizes(rng, opset):
    """The newer exporter: `Shape` with a range, `Squeeze`, products of sizes, and `Reshape` and `Expand` by them."""
    g = Graph(rng, max(opset, 18))

    def size(x, axis):
        return g.op("Squeeze", g.op("Shape", x, start=axis, end=axis + 1), g.ints(0))

    def shape(*sizes):
        parts = [g.ints(s) if isinstance(s, int) else g.op("Reshape", s, g.ints(-1), allowzero=0) for s in sizes]
        return g.op("Concat", *parts, axis=0)

    x, y = g.input("x", ["s0", "s1", 6]), g.input("y", ["s0", 6])
    batch, seq = size(x, 0), size(x, 1)
    h = g.op("LayerNormalization", x, g.weight(6), g.weight(6), axis=-1, epsilon=1e-5)
    h = g.op("Reshape", h, shape(g.op("Mul", batch, seq), 6), allowzero=1)
    h = g.op("Gemm", h, g.weight(4, 6), g.weight(4), transB=1)
    h = g.op("Gelu", h, approximate=pick(rng, "none", "tanh")) if g.opset >= 20 else g.op("Sigmoid", h)
    h = g.op("Reshape", h, shape(batch, seq, 2, 2), allowzero=1)
    a, b = g.op("Split", h, n=2, axis=2, num_outputs=2)
    h = g.op("Concat", b, a, axis=-1)
    wide = g.op("Expand", g.op("Unsqueeze", y, g.ints(1)), shape(batch, seq, 6))
    mean = g.op("ReduceMean", wide, g.ints(-2, 2), keepdims=0, noop_with_empty_axes=0)
    g.output(g.op("Concat", wide, g.op("Squeeze", h, g.ints(2)), axis=2))
    g.output(mean)
    total = g.op("Add", g.op("Mul", seq, g.int(2)), batch)
    g.output(g.op("Range", g.int(0), total, g.int(1)), INT64)
    if rng.integers(2):
        g.domains["pkg.torch.lib"] = 1
        nodes = [helper.make_node("Sigmoid", ["v"], ["s"]), helper.make_node("Mul", ["v", "s"], ["w"])]
        g.functions.append(helper.make_function("pkg.torch.lib", "silu", ["v"], ["w"], nodes,
                                                [helper.make_opsetid("", g.opset)]))
        g.output(g.op("silu", mean, domain="pkg.torch.lib"))

    def call(r):
        batch = r.integers(1, 5)
        return {"x": floats(r, batch, r.integers(1, 12), 6), "y": floats(r, batch, 6)}
    return g, call


def branch_on_sizes(rng, opset):
    """`squeeze` of an axis of unknown size, and a branch on a size."""
    g, same_rank = Graph(rng, opset), bool(rng.integers(2))
    x = g.input("x", ["n", "m", 4])
    is_one = g.op("Equal", g.size(x, 1), g.int(pick(rng, 1, 1, 2, 3)))
    then, otherwise = g.inner(), g.inner()
    t = then.op("Neg", x) if same_rank else then.reduce("ReduceSum", x, 1, keepdims=0)
    e = otherwise.op("Relu", x)
    branch = g.op("If", is_one, then_branch=then.body("then", [], [(t, FLOAT)]),
                  else_branch=otherwise.body("else", [], [(e, FLOAT)]))
    g.output(g.op("Mul", branch, g.weight(4)))
    return g, lambda r: {"x": floats(r, r.integers(1, 5), r.integers(1, 4), 4)}


def padded_branch(rng, opset):
    """A branch that pads to a multiple, and one that leaves the tensor unchanged."""
    g, multiple = Graph(rng, opset), pick(rng, 2, 4)
    x = g.input("x", ["n", "m", 4])
    seq = g.size(x, 1)
    rest = g.op("Mod", seq, g.int(multiple))
    then, otherwise = g.inner(), g.inner()
    missing = then.op("Sub", g.int(multiple), rest)
    pads = then.op("Concat", g.ints(0, 0, 0, 0), then.unsqueeze(missing, 0), g.ints(0), axis=0)
    t = then.op("Pad", x, pads, g.float(pick(rng, 0.0, 1.0)))
    e = otherwise.op("Identity", x)
    padded = g.op("If", g.op("Greater", rest, g.int(0)), then_branch=then.body("then", [], [(t, FLOAT)]),
                  else_branch=otherwise.body("else", [], [(e, FLOAT)]))
    blocks = g.op("Reshape", padded, g.shape_of(g.size(x, 0), -1, multiple, 4))
    g.output(g.reduce("ReduceMax", blocks, 2, keepdims=0))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 10), 4)}


def growing_loop(rng, opset):
    """torch.jit: a carried tensor that grows by one row per iteration, and a stacked result."""
    g = Graph(rng, opset)
    x, trips = g.input("x", ["n", 3]), g.input("trips", [], INT64)
    first = g.op("Slice", x, g.ints(0), g.ints(1), g.ints(0))
    b = g.inner()
    goes_on = b.op("Identity", "going")
    next_row = b.op("Mul", "row", g.float(0.5))
    more = b.op("Concat", "all", next_row, axis=0)
    total = b.op("ReduceSum", next_row, keepdims=0)
    body = b.body("body", [("i", (INT64, [])), ("going", (BOOL, [])), ("row", FLOAT), ("all", FLOAT)],
                  [(goes_on, (BOOL, [])), (next_row, FLOAT), (more, FLOAT), (total, FLOAT)])
    row, rows, totals = g.op("Loop", trips, g.const(True, np.bool_), first, x, n=3, body=body)
    for result in (row, rows, totals):
        g.output(result)
    fewest = pick(rng, 0, 1)
    return g, lambda r: {"x": floats(r, r.integers(1, 6), 3), "trips": np.array(r.integers(fewest, 6), np.int64)}


def while_loop(rng, opset):
    """A loop over the rows of its input, with a computed exit condition."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", 4])
    limit = g.float(float(rng.random() * 6 + 1))
    b = g.inner()
    row = b.op("Gather", x, "at", axis=0)
    total = b.op("Add", "sum", b.op("Abs", row))
    below = b.op("Less", b.reduce("ReduceSum", total, 0, keepdims=0), limit)
    next_at = b.op("Add", "at", g.int(1))
    goes_on = b.op("And", below, b.op("Less", next_at, g.size(x, 0)))
    body = b.body("body", [("i", (INT64, [])), ("on", (BOOL, [])), ("at", (INT64, [])), ("sum", (FLOAT, [4]))],
                  [(goes_on, (BOOL, [])), (next_at, (INT64, [])), (total, (FLOAT, [4])), (row, (FLOAT, [4]))])
    at, sums, rows = g.op("Loop", pick(rng, "", g.int(END)), g.const(True, np.bool_), g.int(0), g.const([0.0] * 4, np.float32),
                          n=3, body=body)
    g.output(at, INT64)
    g.output(sums)
    g.output(rows)
    return g, lambda r: {"x": floats(r, r.integers(1, 9), 4)}


def masks(rng, opset):
    """A causal mask from `Range` and `Less`, applied by `Where`."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "seq", 4])
    seq = g.size(x, 1)
    at = g.range(seq)
    after = g.op("Less", g.unsqueeze(at, 1), g.unsqueeze(at, 0))
    scores = g.op("MatMul", x, g.op("Transpose", x, perm=[0, 2, 1]))
    scores = g.op("Where", after, g.float(pick(rng, -1e9, -10000.0, -np.inf)), scores)
    if rng.integers(2):
        length = g.op("ConstantOfShape", g.shape_of(seq), value=helper.make_tensor("v", 1, [1], [0.25]))
        scores = g.op("Add", scores, length)
    g.output(g.op("MatMul", g.op("Softmax", scores, axis=-1), x))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 14), 4)}


def padding_masks(rng, opset):
    """An encoder's 0/1 attention mask, expanded and added to the scores; positions by `CumSum`."""
    g = Graph(rng, opset)
    ids, mask = g.input("ids", ["batch", "seq"], INT64), g.input("mask", ["batch", "seq"], INT64)
    batch, seq = g.size(ids, 0), g.size(ids, 1)
    x = g.op("Gather", g.weight(11, 8), ids)
    position = g.op("Mul", g.op("CumSum", mask, g.int(1)), mask)
    x = g.op("Add", x, g.op("Gather", g.weight(16, 8), position))
    wide = g.expand(g.unsqueeze(mask, 1, 2), batch, 1, seq, seq)
    bias = g.op("Mul", g.op("Sub", g.float(1.0), g.cast(wide, FLOAT)), g.float(-3.4028234663852886e38))
    if rng.integers(2) and opset >= 14:
        ones = g.op("ConstantOfShape", g.shape_of(seq, seq), value=helper.make_tensor("v", FLOAT, [1], [-1e4]))
        bias = g.op("Max", g.op("Add", bias, g.op("Trilu", ones, g.int(1), upper=1)), g.float(-3e38))
    scores = g.op("MatMul", x, g.op("Transpose", x, perm=[0, 2, 1]))
    scores = g.op("Add", g.unsqueeze(scores, 1), bias)
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), g.unsqueeze(x, 1))
    weights = g.cast(g.unsqueeze(mask, 2), FLOAT)
    total = g.reduce("ReduceSum", g.op("Mul", g.squeeze(mixed, 1), weights), 1, keepdims=0)
    g.output(g.op("Div", total, g.op("Clip", g.reduce("ReduceSum", weights, 1, keepdims=0), g.float(1e-9))))

    def call(r):
        batch, seq = r.integers(1, 4), r.integers(1, 12)
        lengths = r.integers(1, seq + 1, batch)
        return {"ids": r.integers(0, 11, (batch, seq)), "mask": (np.arange(seq) < lengths[:, None]).astype(np.int64)}
    return g, call


def slice_assignment(rng, opset):
    """`x[:, a:b] = v`: indices from `Range`, `Expand` and `Concat`, and a `ScatterND`."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", "m", 3])
    n, m = g.size(x, 0), g.size(x, 1)
    half = g.op("Div", g.op("Add", m, g.int(1)), g.int(2))
    rows, columns = g.range(n), g.range(m, start=half) if rng.integers(2) else g.range(half)
    count = g.size(columns, 0)
    first = g.expand(g.op("Reshape", rows, g.ints(-1, 1, 1)), n, count, 1)
    second = g.op("Expand", g.op("Reshape", columns, g.ints(1, -1, 1)), g.shape_of(n, count, 1))
    indices = g.op("Concat", first, second, axis=-1)
    updates = g.op("Expand", g.weight(3), g.shape_of(n, count, 3))
    changed = g.op("ScatterND", g.op("Mul", x, g.float(2.0)), indices, updates)
    g.output(changed)
    g.output(g.op("GatherND", changed, indices))
    _, order = g.op("TopK", g.reduce("ReduceSum", x, 2, keepdims=0), g.unsqueeze(half, 0), n=2, axis=1)
    g.output(g.op("GatherElements", g.op("Gather", x, g.int(1), axis=2), order, axis=1))
    return g, lambda r: {"x": floats(r, r.integers(1, 5), r.integers(1, 9), 3)}


def recurrent(rng, opset):
    """A bidirectional recurrent layer with a zero initial state of the batch's size, and concatenated directions."""
    g, both = Graph(rng, opset), int(rng.integers(1, 3))
    kind, gates = pick(rng, ("LSTM", 4), ("GRU", 3), ("RNN", 1))
    x = g.input("x", ["batch", "seq", 3])
    batch, seq = g.size(x, 0), g.size(x, 1)
    zeros = g.op("ConstantOfShape", g.shape_of(both, batch, 4), value=helper.make_tensor("v", FLOAT, [1], [0.0]))
    states = [zeros, zeros] if kind == "LSTM" else [zeros]
    attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
    h, last, *_ = g.op(kind, g.op("Transpose", x, perm=[1, 0, 2]), g.weight(both, gates * 4, 3), g.weight(both, gates * 4, 4),
                       g.weight(both, gates * 8), "", *states, n=3 if kind == "LSTM" else 2, hidden_size=4,
                       direction="bidirectional" if both == 2 else "forward", **attributes)
    h = g.op("Reshape", g.op("Transpose", h, perm=[2, 0, 1, 3]), g.shape_of(batch, seq, 4 * both))
    g.output(g.linear(h, 4 * both, 5))
    g.output(g.op("Gather", last, g.int(-1), axis=0))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 8), 3)}


def relative_positions(rng, opset):
    """Bucketed relative positions, as in T5, and a relative shift by a pad and two reshapes."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "seq", 4])
    batch, seq = g.size(x, 0), g.size(x, 1)
    at = g.range(seq)
    far = g.op("Sub", g.unsqueeze(at, 0), g.unsqueeze(at, 1))
    away = g.op("Abs", far)
    large = g.op("Log", g.op("Div", g.op("Max", g.cast(away, FLOAT), g.float(1.0)), g.float(4.0)))
    large = g.op("Add", g.cast(g.op("Mul", large, g.float(1.7)), INT64), g.int(4))
    if opset >= 12:
        large = g.op("Min", large, g.int(7))
    else:
        large = g.op("Where", g.op("Less", large, g.int(7)), large, g.int(7))
    bucket = g.op("Where", g.op("Less", away, g.int(4)), away, large)
    bucket = g.op("Add", bucket, g.op("Mul", g.cast(g.op("Greater", far, g.int(0)), INT64), g.int(8)))
    bias = g.op("Transpose", g.op("Gather", g.weight(16, 2), bucket), perm=[2, 0, 1])
    scores = g.op("Add", g.unsqueeze(g.op("MatMul", x, g.op("Transpose", x, perm=[0, 2, 1])), 1), g.unsqueeze(bias, 0))
    g.output(scores)
    padded = g.op("Pad", scores, g.ints(0, 0, 0, 1, 0, 0, 0, 0))
    shifted = g.op("Reshape", padded, g.shape_of(batch, 2, -1, seq))
    shifted = g.slice(shifted, 1, END, 2)
    g.output(g.op("Reshape", shifted, g.op("Shape", scores)))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 12), 4)}


FAMILIES = [size_arithmetic, dynamo_sizes, branch_on_sizes, padded_branch, growing_loop, while_loop, masks, padding_masks,
            slice_assignment, recurrent, relative_positions]
