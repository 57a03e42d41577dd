"""Reductions, normalisation, cumulative operators, pooling, selection."""
import numpy as np

FEATURES, TOKENS, MATRIX = "N:4 c:64 H:56 W:56", "N:8 T:128 c:768", "N:1024 c:1000"
AXES = [("inner", TOKENS, [-1]), ("outer", TOKENS, [0]), ("middle", TOKENS, [1]), ("pixels", FEATURES, [2, 3]), ("channels", FEATURES, [1]),
        ("all", TOKENS, [0, 1, 2]), ("batch and pixels", FEATURES, [0, 2, 3])]
KINDS = ["ReduceMax", "ReduceL2", "ReduceProd", "ReduceLogSumExp", "ReduceSumSquare", "ReduceL1", "ReduceMin"]
POOLS = [
    ("2x2, stride 2", FEATURES, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("3x3, stride 2", "N:4 c:64 H:112 W:112", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("3x3", FEATURES, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("5x5", "N:1 c:256 H:20 W:20", {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
    ("9x9", "N:1 c:256 H:20 W:20", {"kernel_shape": [9, 9], "pads": [4, 4, 4, 4]}),
    ("13x13", "N:1 c:256 H:20 W:20", {"kernel_shape": [13, 13], "pads": [6, 6, 6, 6]}),
]


def detector_boxes(g, boxes, classes):
    """Clustered boxes in a picture, as (y, x, height, width), and their scores."""
    centre = g.random.random((1, boxes, 2)).astype(np.float32)
    size = 0.05 + 0.1 * g.random.random((1, boxes, 2)).astype(np.float32)
    value = np.concatenate([centre - size / 2, centre + size / 2], -1)
    return g.input(f"N:1 B:{boxes} 4", value=value), g.input(f"N:1 c:{classes} B:{boxes}", low=0, high=1)


def suppress(g, boxes, classes, most):
    places, scores = detector_boxes(g, boxes, classes)
    return g.output(g.NonMaxSuppression(places, scores, g.const([most]), g.const([0.5], "f32"), g.const([0.6], "f32")))


def configurations(add):
    for name, text, axes in AXES:
        for kind in ("ReduceSum", "ReduceMean"):
            take = (lambda g, k=kind, t=text, a=axes: g.output(g.node(k, [g.input(t), g.const(a)], keepdims=1)))
            add("reductions", f"{kind[6:].lower()}, {name}", take)
    for kind in KINDS:
        bounds = {"low": 0.9, "high": 1.1} if kind == "ReduceProd" else {}
        add("reductions", f"{kind[6:].lower()}, inner", lambda g, k=kind, b=bounds: g.output(g.node(k, [g.input(TOKENS, **b), g.const([-1])])))
    add("reductions", "max, outer", lambda g: g.output(g.ReduceMax(g.input(TOKENS), g.const([0]))))
    add("reductions", "max, pixels", lambda g: g.output(g.ReduceMax(g.input(FEATURES), g.const([2, 3]))))
    add("reductions", "sum of i64", lambda g: g.output(g.ReduceSum(g.input(TOKENS, "i64"), g.const([-1]))))
    add("reductions", "mean of f16", lambda g: g.output(g.ReduceMean(g.input(TOKENS, "f16"), g.const([-1]))))
    for name, text, axis in [("inner", MATRIX, 1), ("outer", MATRIX, 0), ("channels", "N:4 c:21 H:128 W:128", 1)]:
        add("reductions", f"arg-max, {name}", lambda g, t=text, a=axis: g.output(g.ArgMax(g.input(t), axis=a)))
        add("softmax", name, lambda g, t=text, a=axis: g.output(g.Softmax(g.input(t), axis=a)))
    add("softmax", "attention scores", lambda g: g.output(g.Softmax(g.input("N:8 h:12 T:128 T:128"), axis=-1)))
    add("softmax", "short rows", lambda g: g.output(g.Softmax(g.input("N:16384 c:10"), axis=-1)))
    add("softmax", "long rows", lambda g: g.output(g.Softmax(g.input("N:32 c:30522"), axis=-1)))
    add("softmax", "log, inner", lambda g: g.output(g.LogSoftmax(g.input(MATRIX), axis=-1)))
    add("softmax", "two classes", lambda g: g.output(g.Softmax(g.input("N:1 c:2 H:160 W:160"), axis=1)))
    add("softmax", "f16", lambda g: g.output(g.Softmax(g.input(MATRIX, "f16"), axis=-1)))

    for name, text, axis in [("inner", MATRIX, 1), ("outer", MATRIX, 0), ("middle", TOKENS, 1)]:
        add("cumulative", f"sum, {name}", lambda g, t=text, a=axis: g.output(g.CumSum(g.input(t), g.const(a))))
    add("cumulative", "sum of i64, inner", lambda g: g.output(g.CumSum(g.input(MATRIX, "i64"), g.const(1))))
    add("cumulative", "exclusive, reversed", lambda g: g.output(g.CumSum(g.input(MATRIX), g.const(1), exclusive=1, reverse=1)))

    add("normalisation", "layer", lambda g: g.output(g.LayerNormalization(g.input(TOKENS), g.weights(768), g.weights(768))))
    add("normalisation", "layer, narrow", lambda g: g.output(g.LayerNormalization(g.input("N:8 T:3136 c:96"), g.weights(96), g.weights(96))))
    add("normalisation", "root mean square", lambda g: (lambda x: g.output(g.Mul(g.Div(x, g.Sqrt(g.Add(
        g.ReduceMean(g.Mul(x, x), g.const([-1])), g.const(1e-6, "f32")))), g.weights(768))))(g.input(TOKENS)))
    add("normalisation", "batch", lambda g: g.output(g.BatchNormalization(
        g.input(FEATURES), g.weights(64), g.weights(64), g.weights(64), g.const(np.linspace(0.5, 2, 64), "f32"))))
    add("normalisation", "instance", lambda g: g.output(g.InstanceNormalization(g.input(FEATURES), g.weights(64), g.weights(64))))
    add("normalisation", "group", lambda g: g.output(g.GroupNormalization(g.input(FEATURES), g.weights(64), g.weights(64), num_groups=8)))
    add("normalisation", "local response", lambda g: g.output(g.LRN(g.input(FEATURES), size=5)))
    add("normalisation", "lp, inner", lambda g: g.output(g.LpNormalization(g.input(TOKENS), axis=-1)))
    add("normalisation", "mean and variance", lambda g: g.output(g.MeanVarianceNormalization(g.input(FEATURES))))

    for name, text, attributes in POOLS:
        add("pools", f"max {name}", lambda g, t=text, a=attributes: g.output(g.MaxPool(g.input(t), **a)))
    for name, text, attributes in POOLS[:4]:
        add("pools", f"average {name}", lambda g, t=text, a=attributes: g.output(g.AveragePool(g.input(t), **a)))
    add("pools", "global average", lambda g: g.output(g.GlobalAveragePool(g.input(FEATURES))))
    add("pools", "global average, 7x7", lambda g: g.output(g.GlobalAveragePool(g.input("N:8 c:2048 7 7"))))
    add("pools", "global maximum", lambda g: g.output(g.GlobalMaxPool(g.input(FEATURES))))
    add("pools", "max, 1D", lambda g: g.output(g.MaxPool(g.input("N:4 c:64 T:4000"), kernel_shape=[4], strides=[4])))
    add("pools", "max, 3D", lambda g: g.output(g.MaxPool(g.input("N:1 c:32 D:16 H:56 W:56"), kernel_shape=[2, 2, 2], strides=[2, 2, 2])))

    add("selection", "top 10 of 1,000", lambda g: g.output(*g.node("TopK", [g.input("N:256 c:1000"), g.const([10])], outputs=2)))
    add("selection", "top 5 of 30,522", lambda g: g.output(*g.node("TopK", [g.input("N:8 c:30522"), g.const([5])], outputs=2)))
    add("selection", "top 300 of 8,400", lambda g: g.output(*g.node("TopK", [g.input("N:1 c:8400"), g.const([300])], outputs=2)))
    add("selection", "sort of 1,024", lambda g: g.output(*g.node("TopK", [g.input("N:64 1024"), g.const([1024])], outputs=2)))
    add("selection", "suppression, 1,000 boxes", lambda g: suppress(g, 1000, 1, 100))
    add("selection", "suppression, 8,400 boxes", lambda g: suppress(g, 8400, 4, 100))
