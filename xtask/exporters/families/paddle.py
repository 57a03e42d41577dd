"""Patterns of paddle2onnx: sizes cast to 32 bits and back, slices one axis at a time, computed resize scales."""

import numpy as np
from onnx import helper

from build import BOOL, END, FLOAT, INT32, INT64, Graph, floats, pick


def size_of(g, x, axis):
    """A size as a tensor with one 32-bit element."""
    return g.slice(g.cast(g.op("Shape", x), INT32), axis, axis + 1, 0)


def joined(g, *sizes):
    parts = [g.cast(g.ints(s), INT64) if isinstance(s, int) else g.cast(s, INT64) for s in sizes]
    return g.op("Concat", *parts, axis=0)


def recogniser(rng, opset):
    """A text recogniser's neck and head: pixels reshaped to a sequence by sizes, heads by `Split` and `Squeeze`."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 3, "h", "w"])
    h = g.op("Conv", x, g.weight(8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 1])
    h = g.op("BatchNormalization", h, g.const(np.ones(8), np.float32), g.weight(8), g.weight(8),
             g.const(np.ones(8), np.float32), epsilon=1e-5)
    h = g.op("Mul", h, g.op("HardSigmoid", h, alpha=0.1666667, beta=0.5))
    gate = g.op("Conv", g.op("GlobalAveragePool", h), g.weight(8, 8, 1, 1))
    h = g.op("Mul", h, g.op("HardSigmoid", gate, alpha=0.2, beta=0.5))
    h = g.op("AveragePool", h, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=0) if rng.integers(2) else h
    h = g.reduce("ReduceMean", h, 2, keepdims=pick(rng, 1, 1))
    h = g.op("Transpose", g.squeeze(h, 2), perm=[0, 2, 1])
    batch, seq = size_of(g, h, 0), size_of(g, h, 1)
    mixed = g.op("Reshape", g.linear(h, 8, 24), joined(g, batch, seq, 3, 2, 4))
    mixed = g.op("Transpose", mixed, perm=[2, 0, 3, 1, 4])
    q, k, v = (g.squeeze(g.slice(mixed, i, i + 1, 0), 0) for i in range(3))
    scores = g.op("Softmax", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
    y = g.op("Transpose", g.op("MatMul", scores, v), perm=[0, 2, 1, 3])
    y = g.op("Add", h, g.op("Reshape", y, joined(g, 0, seq, 8) if rng.integers(2) else g.ints(0, 0, 8)))
    y = g.op("Softmax", g.linear(g.layer_norm(y, 8), 8, 7), axis=2)
    g.output(y)
    g.output(g.op("ArgMax", y, axis=2, keepdims=0), INT64)
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 3, r.integers(6, 14), r.integers(4, 16))}


def feature_pyramid(rng, opset):
    """A text detector's neck: features resized to each other's sizes by scales or sizes, added and concatenated."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 2, "h", "w"])
    levels = [g.op("Relu", g.op("Conv", x, g.weight(4, 2, 3, 3), pads=[1, 1, 1, 1]))]
    for _ in range(2):
        ceil_mode = pick(rng, 0, 1)
        levels.append(g.op("MaxPool", levels[-1], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=ceil_mode))
    parts, top = [levels[2]], levels[2]
    for level in (levels[1], levels[0]):
        sizes = joined(g, g.slice(g.op("Shape", top), 0, 2, 0), size_of(g, level, 2), size_of(g, level, 3))
        mode = pick(rng, "nearest", "linear")
        if rng.integers(2):
            up = g.resize(top, sizes=sizes, mode=mode,
                      coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        else:
            scales = g.op("Div", g.cast(sizes, FLOAT), g.cast(g.op("Shape", top), FLOAT))
            up = g.resize(top, scales=scales, mode=mode, coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")
        top = g.op("Add", up, level)
        parts.append(top)
    sizes = joined(g, g.slice(g.op("Shape", top), 0, 2, 0), g.slice(g.op("Shape", x), 2, 4, 0))
    wide = [g.resize(part, sizes=sizes, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor") for part in parts]
    y = g.op("Conv", g.op("Concat", *wide, axis=1), g.weight(2, 12, 1, 1))
    g.output(g.op("Sigmoid", g.op("ConvTranspose", y, g.weight(2, 1, 2, 2), strides=[2, 2])))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 2, r.integers(1, 14), r.integers(1, 14))}


def filled_like(rng, opset):
    """`full_like`, `arange` and `tril` by sizes, comparisons cast to numbers, and a `Squeeze` of every bound."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", "m"])
    zeros = g.op("ConstantOfShape", g.op("Shape", x), value=helper.make_tensor("v", FLOAT, [1], [0.0]))
    full = g.op("Add", zeros, g.float(1.5))
    at = g.op("Range", g.int(0), g.squeeze(g.cast(size_of(g, x, 1), INT64), 0), g.int(1))
    rows = g.op("Range", g.int(0), g.squeeze(g.cast(size_of(g, x, 0), INT64), 0), g.int(1))
    lower = g.cast(g.op("Less", g.unsqueeze(at, 0), g.unsqueeze(rows, 1)), FLOAT)
    y = g.op("Mul", g.op("Add", x, full), lower)
    g.output(y)
    g.output(g.cast(g.op("Greater", y, zeros), INT32), INT32)
    count = g.op("ReduceSum", g.cast(g.op("Greater", x, zeros), INT32), keepdims=0)
    g.output(count, INT32)
    any_true = g.op("Greater", g.reduce("ReduceMax", g.cast(g.op("Less", x, zeros), INT32), 1, keepdims=0), g.const(0, np.int32))
    g.output(any_true, BOOL)
    half = g.op("Div", g.squeeze(g.cast(size_of(g, x, 0), INT64), 0), g.int(2))
    rest = g.op("Slice", x, g.unsqueeze(half, 0), g.ints(END), g.ints(0))
    g.output(g.op("Concat", rest, x, axis=0))
    if rng.integers(2):
        g.output(g.op("Pow", g.op("Abs", x), g.const(2, np.int32) if opset >= 12 else g.float(2.0)))
        g.output(g.op("Mod", g.cast(g.op("Floor", g.op("Mul", x, g.float(4.0))), INT64), g.int(3)), INT64)
    return g, lambda r: {"x": floats(r, r.integers(1, 8), r.integers(1, 8))}


def matrix_nms(rng, opset):
    """A detector's best boxes by `TopK`, pairwise overlaps, and decayed scores."""
    g = Graph(rng, opset)
    boxes, scores = g.input("boxes", ["n", 4]), g.input("scores", ["n"])
    k = g.op("Min", g.cast(size_of(g, boxes, 0), INT64), g.ints(5)) if opset >= 12 else \
        g.op("Where", g.op("Less", g.op("Shape", scores), g.ints(5)), g.op("Shape", scores), g.ints(5))
    best, index = g.op("TopK", scores, k, n=2, axis=0)
    chosen = g.op("Gather", boxes, index, axis=0)
    a, b = g.unsqueeze(chosen, 1), g.unsqueeze(chosen, 0)
    low = g.op("Max", g.slice(a, 0, 2, 2), g.slice(b, 0, 2, 2))
    high = g.op("Min", g.slice(a, 2, 4, 2), g.slice(b, 2, 4, 2))
    sides = g.op("Relu", g.op("Sub", high, low))
    shared = g.op("Mul", *(g.squeeze(g.slice(sides, i, i + 1, 2), 2) for i in range(2)))
    extent = g.op("Sub", g.slice(chosen, 2, 4, 1), g.slice(chosen, 0, 2, 1))
    area = g.op("Mul", *(g.slice(extent, i, i + 1, 1) for i in range(2)))
    union = g.op("Sub", g.op("Add", area, g.op("Transpose", area, perm=[1, 0])), shared)
    overlap = g.op("Div", shared, union)
    at = g.range(g.squeeze(k, 0))
    upper = g.cast(g.op("Less", g.unsqueeze(at, 1), g.unsqueeze(at, 0)), FLOAT)
    worst = g.reduce("ReduceMax", g.op("Mul", overlap, upper), 0, keepdims=0)
    decayed = g.op("Mul", best, g.op("Sub", g.float(1.0), worst))
    g.output(decayed)
    kept = g.op("NonZero", g.op("Greater", decayed, g.float(0.2)))
    g.output(g.op("Gather", chosen, g.squeeze(kept, 0), axis=0))

    def call(r):
        n = r.integers(1, 10)
        corner = r.random((n, 2)) * 4
        return {"boxes": np.concatenate([corner, corner + r.random((n, 2)) * 3 + 0.5], 1).astype(np.float32),
                "scores": r.random(n).astype(np.float32)}
    return g, call


FAMILIES = [recogniser, feature_pyramid, filled_like, matrix_nms]
