"""Families of models, each imitating what an exporter writes. A family gives a graph and a function from a random
generator to the inputs of one call."""

import numpy as np
from onnx import TensorProto, helper

from build import Graph

I64, BOOL = TensorProto.INT64, TensorProto.BOOL


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def pick(rng, *choices):
    return choices[int(rng.integers(len(choices)))]


def size_arithmetic(rng, opset):
    """torch: heads split and merged by sizes that are computed."""
    g, heads = Graph(rng, opset), pick(rng, 1, 2, 4)
    x = g.input("x", ["batch", "seq", 8])
    batch, seq = g.size(x, 0), g.size(x, 1)
    h = g.op("MatMul", x, g.weight(8, 8))
    h = g.op("Reshape", h, g.shape_of(batch, seq, heads, 8 // heads))
    h = g.op("Transpose", h, perm=[0, 2, 1, 3])
    scores = g.op("MatMul", h, g.op("Transpose", h, perm=[0, 1, 3, 2]))
    h = g.op("MatMul", g.op("Softmax", scores, axis=-1), h)
    h = g.op("Transpose", h, perm=[0, 2, 1, 3])
    g.output(g.op("Reshape", h, g.shape_of(batch, seq, pick(rng, 8, -1))))
    return g, lambda r: {"x": floats(r, r.integers(1, 5), r.integers(1, 12), 8)}


def branch_on_sizes(rng, opset):
    """torch: `squeeze` of an axis whose size is open, and a branch on a size."""
    g, same_rank = Graph(rng, opset), bool(rng.integers(2))
    x = g.input("x", ["n", "m", 4])
    is_one = g.op("Equal", g.size(x, 1), g.const(pick(rng, 1, 1, 2, 3), np.int64))
    value = helper.make_tensor_value_info
    if same_rank:
        then = helper.make_node("Neg", [x], ["t"])
    else:
        then = helper.make_node("ReduceSum" if opset >= 13 else "Identity", [x, g.ints(1)], ["t"], keepdims=0) \
            if opset >= 13 else helper.make_node("Squeeze", [x], ["t"], axes=[1])
    otherwise = helper.make_node("Relu", [x], ["e"])
    branch = g.op("If", is_one,
                  then_branch=g.body("then", [then], [], [value("t", 1, None)]),
                  else_branch=g.body("else", [otherwise], [], [value("e", 1, None)]))
    g.output(g.op("Mul", branch, g.weight(4)))
    return g, lambda r: {"x": floats(r, r.integers(1, 5), r.integers(1, 4), 4)}


def growing_loop(rng, opset):
    """torch.jit: a carried tensor that grows by a row each round, and a stacked result."""
    g = Graph(rng, opset)
    x, trips = g.input("x", ["n", 3]), g.input("trips", [], I64)
    first = g.op("Slice", x, g.ints(0), g.ints(1), g.ints(0))
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", ["going"], ["goes_on"]),
        helper.make_node("Mul", ["row", g.const(0.5, np.float32)], ["next_row"]),
        helper.make_node("Concat", ["all", "next_row"], ["more"], axis=0),
        helper.make_node("ReduceSum" if opset >= 13 else "ReduceMax", ["next_row"], ["total"], keepdims=0),
    ]
    body = g.body("body", nodes,
                  [value("i", I64, []), value("going", BOOL, []), value("row", 1, None), value("all", 1, None)],
                  [value("goes_on", BOOL, []), value("next_row", 1, None), value("more", 1, None), value("total", 1, None)])
    row, rows, totals = g.op("Loop", trips, g.const(True, np.bool_), first, x, n=3, body=body)
    for result in (row, rows, totals):
        g.output(result)
    return g, lambda r: {"x": floats(r, r.integers(1, 6), 3), "trips": np.array(r.integers(1, 6), np.int64)}


def masks(rng, opset):
    """torch: a causal mask of `Range` and `Less`, filled by `Where`."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "seq", 4])
    seq = g.size(x, 1)
    at = g.op("Range", g.const(0, np.int64), seq, g.const(1, np.int64))
    after = g.op("Less", g.unsqueeze(at, 1), g.unsqueeze(at, 0))
    scores = g.op("MatMul", x, g.op("Transpose", x, perm=[0, 2, 1]))
    scores = g.op("Where", after, g.const(pick(rng, -1e9, -10000.0), np.float32), scores)
    if rng.integers(2):
        length = g.op("ConstantOfShape", g.shape_of(seq), value=helper.make_tensor("v", 1, [1], [0.25]))
        scores = g.op("Add", scores, length)
    g.output(g.op("MatMul", g.op("Softmax", scores, axis=-1), x))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 14), 4)}


def dynamic_slices(rng, opset):
    """tf2onnx: slices by sizes, steps and ends beyond the axis, then strided gathers."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", "m"])
    n, m = g.size(x, 0), g.size(x, 1)
    half = g.op("Div", m, g.const(2, np.int64))
    a = g.op("Slice", x, g.ints(0), g.unsqueeze(half, 0), g.ints(1), g.ints(1))
    b = g.op("Slice", x, g.unsqueeze(half, 0), g.ints(2**31 - 1), g.ints(1), g.ints(1))
    both = g.op("Concat", b, a, axis=1)
    back = g.op("Slice", both, g.ints(-1), g.ints(-(2**31)), g.ints(1), g.ints(-1))
    g.output(g.op("Add", both, back))
    g.output(g.op("Expand", g.op("Slice", x, g.ints(0), g.ints(1), g.ints(0), g.ints(pick(rng, 1, 2))), g.shape_of(n, m)))
    return g, lambda r: {"x": floats(r, r.integers(1, 7), r.integers(1, 12))}


def pads_and_resizes(rng, opset):
    """torch, paddle: pads up to a multiple, then a resize to the size of another tensor."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 2, "h", "w"])
    multiple = pick(rng, 2, 4, 8)
    k = g.const(multiple, np.int64)
    extra = [g.op("Mod", g.op("Neg", g.size(x, axis)), k) for axis in (2, 3)]
    pads = g.shape_of(0, 0, 0, 0, 0, 0, extra[0], extra[1])
    padded = g.op("Pad", x, pads, mode=pick(rng, "constant", "constant", "edge"))
    down = g.op("MaxPool", padded, kernel_shape=[2, 2], strides=[2, 2])
    conv = g.op("Conv", down, g.weight(3, 2, 3, 3), pads=[1, 1, 1, 1])
    mode = pick(rng, "nearest", "linear")
    coordinates = pick(rng, "half_pixel", "asymmetric") if mode == "linear" else "asymmetric"
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    sizes = g.op("Concat", g.op("Slice", g.op("Shape", conv), g.ints(0), g.ints(2), g.ints(0)),
                 g.op("Slice", g.op("Shape", x), g.ints(2), g.ints(4), g.ints(0)), axis=0)
    if rng.integers(2):
        g.output(g.op("Resize", conv, "", "", sizes, **attributes))
    else:
        ratio = g.op("Div", g.op("Cast", sizes, to=1), g.op("Cast", g.op("Shape", conv), to=1))
        scale = g.op("Concat", g.const([1.0, 1.0], np.float32), g.op("Slice", ratio, g.ints(2), g.ints(4), g.ints(0)), axis=0)
        g.output(g.op("Resize", conv, "", scale, **attributes))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 2, r.integers(2, 20), r.integers(2, 20))}


def growing_cache(rng, opset):
    """A decoder step whose keys and values grow by what the step adds."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "seq", 8])
    past = [g.input(name, ["batch", 2, "past", 4]) for name in ("past_key", "past_value")]
    batch, seq = g.size(x, 0), g.size(x, 1)

    def heads(value):
        return g.op("Transpose", g.op("Reshape", value, g.shape_of(batch, seq, 2, 4)), perm=[0, 2, 1, 3])

    query, key, value = (heads(g.op("MatMul", x, g.weight(8, 8))) for _ in range(3))
    key, value = (g.op("Concat", old, new, axis=2) for old, new in zip(past, (key, value)))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, g.const(0.5, np.float32))
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    g.output(g.op("Add", x, g.op("Reshape", mixed, g.shape_of(batch, seq, 8))))
    g.output(key)
    g.output(value)

    def call(r):
        batch, seq, past = r.integers(1, 3), r.integers(1, 4), r.integers(0, 9)
        return {"x": floats(r, batch, seq, 8), "past_key": floats(r, batch, 2, past, 4),
                "past_value": floats(r, batch, 2, past, 4)}
    return g, call


def quantised(rng, opset):
    """QDQ around a convolution, or the same in `QLinearConv`, and a dynamically quantised product."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 3, "h", "w"])
    scale, zero = g.const(0.02, np.float32), g.const(128, np.uint8)
    w_scale, w_zero = g.const(0.01, np.float32), g.const(0, np.int8)
    weights = g.const(rng.integers(-100, 100, (4, 3, 3, 3)), np.int8)
    q = g.op("QuantizeLinear", x, scale, zero)
    if rng.integers(2):
        w = g.op("DequantizeLinear", weights, w_scale, w_zero)
        y = g.op("Conv", g.op("DequantizeLinear", q, scale, zero), w, pads=[1, 1, 1, 1])
    else:
        y = g.op("QLinearConv", q, scale, zero, weights, w_scale, w_zero, g.const(0.05, np.float32), zero, pads=[1, 1, 1, 1])
        y = g.op("DequantizeLinear", y, g.const(0.05, np.float32), zero)
    g.output(g.op("Relu", y))
    flat = g.op("Flatten", g.op("GlobalAveragePool", y))
    a, a_scale, a_zero = g.op("DynamicQuantizeLinear", flat, n=3)
    sums = g.op("MatMulInteger", a, g.const(rng.integers(-100, 100, (4, 5)), np.int8), a_zero)
    g.output(g.op("Mul", g.op("Cast", sums, to=1), a_scale))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 3, r.integers(1, 12), r.integers(1, 12))}


def detector_head(rng, opset):
    """Boxes and scores through `NonMaxSuppression`, `TopK`, `GatherND` and `NonZero`."""
    g = Graph(rng, opset)
    boxes, scores = g.input("boxes", [1, "n", 4]), g.input("scores", [1, 2, "n"])
    chosen = g.op("NonMaxSuppression", boxes, scores, g.ints(pick(rng, 3, 10)), g.const([0.5], np.float32), g.const([0.1], np.float32))
    g.output(chosen, I64)
    g.output(g.op("GatherND", scores, chosen))
    best = g.op("ReduceMax", scores, axes=[1], keepdims=0) if opset < 18 else g.op("ReduceMax", scores, g.ints(1), keepdims=0)
    k = g.op("Min", g.unsqueeze(g.size(boxes, 1), 0), g.ints(pick(rng, 2, 5)))
    top, _ = g.op("TopK", best, k, n=2, axis=1)
    g.output(top)
    g.output(g.op("NonZero", g.op("Greater", best, g.const(0.3, np.float32))), I64)

    def call(r):
        n = r.integers(1, 12)
        corner = r.random((1, n, 2)) * 10
        size = r.random((1, n, 2)) * 4 + 0.5
        return {"boxes": np.concatenate([corner, corner + size], 2).astype(np.float32),
                "scores": r.random((1, 2, n)).astype(np.float32)}
    return g, call


def classic(rng, opset):
    """sklearn: a scaler, a forest or a linear model, and one-hot columns."""
    g, features = Graph(rng, opset), 3
    x = g.input("x", ["n", features])
    y = g.op("Scaler", x, domain="ai.onnx.ml", offset=[float(v) for v in rng.standard_normal(features)],
             scale=[float(v) for v in rng.random(features) + 0.5])
    if rng.integers(2):
        trees = int(rng.integers(1, 4))
        ids = [tree for tree in range(trees) for _ in range(3)]
        forest = g.op(
            "TreeEnsembleRegressor", y, domain="ai.onnx.ml", n_targets=1, nodes_treeids=ids, nodes_nodeids=[0, 1, 2] * trees,
            nodes_featureids=[v for _ in range(trees) for v in (int(rng.integers(features)), 0, 0)],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * trees,
            nodes_values=[v for _ in range(trees) for v in (float(rng.standard_normal()), 0.0, 0.0)],
            nodes_truenodeids=[1, 0, 0] * trees, nodes_falsenodeids=[2, 0, 0] * trees,
            target_treeids=[tree for tree in range(trees) for _ in range(2)], target_nodeids=[1, 2] * trees,
            target_ids=[0, 0] * trees, target_weights=[float(v) for v in rng.standard_normal(2 * trees)])
        g.output(forest)
    else:
        g.output(g.op("LinearRegressor", y, domain="ai.onnx.ml", coefficients=[0.5, -1.0, 0.25], intercepts=[0.1]))
    label = g.op("ArgMax", y, axis=1, keepdims=0)
    g.output(g.op("OneHot", label, g.const(features, np.int64), g.const([0.0, 1.0], np.float32)))
    return g, lambda r: {"x": floats(r, r.integers(1, 9), features)}


FAMILIES = [size_arithmetic, branch_on_sizes, growing_loop, masks, dynamic_slices, pads_and_resizes, growing_cache,
            quantised, detector_head, classic]
