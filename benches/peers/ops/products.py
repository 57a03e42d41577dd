"""Matrix products, convolutions, recurrent layers, attention."""
import numpy as np

PRODUCTS = [  # rows, depth, columns of a product with weights
    (1, 768, 768), (1, 4096, 4096), (8, 768, 3072), (32, 512, 512), (128, 768, 768), (128, 768, 3072), (512, 512, 512), (1024, 64, 64), (197, 384, 1536),
    (1000, 1000, 1000), (64, 1024, 10), (4096, 16, 16),
]
CONVOLUTIONS = [  # name, input, features, window, further attributes
    ("1x1, 64 to 256 at 56", "N:1 64 H:56 W:56", 256, 1, {}),
    ("1x1, 256 to 64 at 56", "N:1 256 H:56 W:56", 64, 1, {}),
    ("1x1, 512 to 2048 at 7", "N:1 512 H:7 W:7", 2048, 1, {}),
    ("1x1, 96 to 24 at 56", "N:1 96 H:56 W:56", 24, 1, {}),
    ("1x1, stride 2", "N:1 256 H:56 W:56", 512, 1, {"strides": [2, 2]}),
    ("3x3, 3 to 32, stride 2", "N:1 3 H:224 W:224", 32, 3, {"strides": [2, 2]}),
    ("3x3, 64 at 56", "N:1 64 H:56 W:56", 64, 3, {}),
    ("3x3, 128 at 28", "N:1 128 H:28 W:28", 128, 3, {}),
    ("3x3, 256 at 14", "N:1 256 H:14 W:14", 256, 3, {}),
    ("3x3, 512 at 7", "N:1 512 H:7 W:7", 512, 3, {}),
    ("3x3, 16 at 320", "N:1 16 H:320 W:320", 16, 3, {}),
    ("3x3, stride 2", "N:1 64 H:56 W:56", 128, 3, {"strides": [2, 2]}),
    ("3x3, dilated", "N:1 64 H:56 W:56", 64, 3, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ("3x3, 32 groups", "N:1 128 H:56 W:56", 128, 3, {"group": 32}),
    ("5x5, 64 at 28", "N:1 64 H:28 W:28", 64, 5, {}),
    ("7x7, 3 to 64, stride 2", "N:1 3 H:224 W:224", 64, 7, {"strides": [2, 2]}),
    ("9x9, 64 to 3", "N:1 64 H:64 W:64", 3, 9, {}),
    ("patches of 16", "N:1 3 H:224 W:224", 384, 16, {"strides": [16, 16], "pads": [0, 0, 0, 0]}),
    ("1x7", "N:1 128 H:17 W:17", 128, (1, 7), {}),
    ("3x3, batch of 8", "N:8 64 H:28 W:28", 64, 3, {}),
    ("depthwise 3x3", "N:1 96 H:56 W:56", 96, 3, {"group": 96}),
    ("depthwise 3x3, stride 2", "N:1 96 H:112 W:112", 96, 3, {"group": 96, "strides": [2, 2]}),
    ("depthwise 5x5", "N:1 240 H:28 W:28", 240, 5, {"group": 240}),
    ("depthwise 7x7", "N:1 96 H:56 W:56", 96, 7, {"group": 96}),
    ("1D, 80 to 384", "N:1 80 T:3000", 384, (3,), {}),
    ("1D, 512, long window", "N:1 512 T:500", 512, (15,), {}),
    ("1D, depthwise 31", "N:1 256 T:1000", 256, (31,), {"group": 256}),
    ("3D 3x3x3", "N:1 16 D:16 H:28 W:28", 32, (3, 3, 3), {}),
]
TRANSPOSED = [
    ("2x2, stride 2", "N:1 128 H:28 W:28", 64, 2, {"strides": [2, 2]}),
    ("3x3, stride 2", "N:1 128 H:28 W:28", 64, 3, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ("4x4, stride 2", "N:1 128 H:28 W:28", 64, 4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("1D, stride 8", "N:1 128 T:256", 64, (16,), {"strides": [8], "pads": [4, 4]}),
]


def convolution(g, text, features, window, attributes, bias=True, activation=None):
    x = g.input(text)
    channels = int(text.split()[1].rpartition(":")[2])
    window = window if isinstance(window, tuple) else (window, window)
    a = {"pads": [(w - 1) // 2 for w in window] * 2, **attributes}
    w = g.weights(features, channels // a.get("group", 1), *window)
    y = g.Conv(x, w, *([g.weights(features)] if bias else []), **a)
    return g.output(activation(y) if activation else y)


def transposed(g, text, features, window, attributes):
    x = g.input(text)
    channels = int(text.split()[1].rpartition(":")[2])
    window = window if isinstance(window, tuple) else (window, window)
    return g.output(g.ConvTranspose(x, g.weights(channels, features, *window), **attributes))


def product(g, m, k, n, bias=False, dtype="f32"):
    y = g.MatMul(g.input(f"N:{m} {k}", dtype), g.weights(k, n, dtype=dtype))
    return g.output(g.Relu(g.Add(y, g.weights(n, dtype=dtype))) if bias else y)


def recurrent(g, kind, gates, steps, batch, width, hidden, **attributes):
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    x = g.input(f"T:{steps} N:{batch} {width}")
    w, r = g.weights(directions, gates * hidden, width), g.weights(directions, gates * hidden, hidden)
    return g.output(g.node(kind, [x, w, r, g.weights(directions, 2 * gates * hidden)], hidden_size=hidden, **attributes))


def attention(g, heads, length, width, causal=False):
    q, k, v = (g.input(f"N:1 h:{heads} T:{length} {width}") for _ in range(3))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.const(width ** -0.5, "f32"))
    if causal:
        scores = g.Add(scores, g.input(f"T:{length} T:{length}", value=np.triu(np.full((length, length), -1e9, np.float32), 1)))
    return g.output(g.MatMul(g.Softmax(scores, axis=-1), v))


def decoding(g, heads, length, width):
    """One new token against stored keys and values."""
    q, k, v = g.input(f"N:1 h:{heads} 1 {width}"), g.input(f"N:1 h:{heads} T:{length} {width}"), g.input(f"N:1 h:{heads} T:{length} {width}")
    scores = g.Softmax(g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.const(width ** -0.5, "f32")), axis=-1)
    return g.output(g.MatMul(scores, v))


def configurations(add):
    for m, k, n in PRODUCTS:
        add("products", f"{m} x {k} x {n}", lambda g, s=(m, k, n): product(g, *s))
    add("products", "128 x 768 x 3072, bias, relu", lambda g: product(g, 128, 768, 3072, bias=True))
    add("products", "512 x 512 x 512, f16", lambda g: product(g, 512, 512, 512, dtype="f16"))
    add("products", "two inputs, 256", lambda g: g.output(g.MatMul(g.input("N:256 K:256"), g.input("K:256 M:256"))))
    add("products", "batched heads", lambda g: g.output(g.MatMul(g.input("N:8 h:12 T:128 64"), g.input("N:8 h:12 64 T:128"))))
    add("products", "vector by matrix", lambda g: g.output(g.MatMul(g.input("k:1024"), g.weights(1024, 1024))))
    add("products", "transposed left", lambda g: g.output(g.Gemm(g.input("k:512 N:256"), g.weights(512, 384), transA=1)))
    add("products", "transposed right", lambda g: g.output(g.Gemm(g.input("N:256 k:512"), g.weights(384, 512), transB=1)))
    add("products", "einsum of heads", lambda g: g.output(g.Einsum(g.input("N:4 T:128 h:8 c:64"), g.input("N:4 S:128 h:8 c:64"), equation="bihd,bjhd->bhij")))
    add("products", "outer sum", lambda g: g.output(g.MatMul(g.input("N:1024 1"), g.input("1 M:1024"))))
    for m, k, n in [(1, 768, 768), (128, 768, 768), (512, 512, 512)]:
        add("8-bit products", f"{m} x {k} x {n}", lambda g, s=(m, k, n): g.output(g.MatMulInteger(
            g.input(f"N:{s[0]} {s[1]}", "u8"), g.weights(s[1], s[2], dtype="i8"), g.const(128, "u8"))))
    add("8-bit products", "quantised, 128 x 768 x 768", lambda g: g.output(g.QLinearMatMul(
        g.input("N:128 768", "u8"), g.const(0.02, "f32"), g.const(128, "u8"), g.weights(768, 768, dtype="i8"), g.const(0.02, "f32"), g.const(0, "i8"), g.const(0.5, "f32"), g.const(128, "u8"))))
    add("8-bit products", "convolution 3x3, 64 at 28", lambda g: g.output(g.QLinearConv(
        g.input("N:1 64 H:28 W:28", "u8"), g.const(0.02, "f32"), g.const(128, "u8"), g.weights(64, 64, 3, 3, dtype="i8"), g.const(0.02, "f32"), g.const(0, "i8"),
        g.const(0.5, "f32"), g.const(128, "u8"), pads=[1, 1, 1, 1])))
    add("8-bit products", "dequantised weights", lambda g: g.output(g.MatMul(g.input("N:16 768"), g.DequantizeLinear(
        g.weights(768, 768, dtype="i8"), g.const(0.02, "f32"), g.const(0, "i8")))))

    for name, *rest in CONVOLUTIONS:
        add("convolutions", name, lambda g, r=rest: convolution(g, *r))
    add("convolutions", "3x3, relu", lambda g: convolution(g, "N:1 64 H:56 W:56", 64, 3, {}, activation=g.Relu))
    add("convolutions", "1x1, silu", lambda g: convolution(g, "N:1 64 H:80 W:80", 64, 1, {}, activation=lambda y: g.Mul(y, g.Sigmoid(y))))
    for name, *rest in TRANSPOSED:
        add("transposed convolutions", name, lambda g, r=rest: transposed(g, *r))

    add("recurrent", "LSTM, 128", lambda g: recurrent(g, "LSTM", 4, 50, 4, 128, 128))
    add("recurrent", "LSTM, both directions", lambda g: recurrent(g, "LSTM", 4, 50, 1, 128, 128, direction="bidirectional"))
    add("recurrent", "GRU, 128", lambda g: recurrent(g, "GRU", 3, 50, 4, 128, 128, linear_before_reset=1))
    add("recurrent", "RNN, 128", lambda g: recurrent(g, "RNN", 1, 50, 4, 128, 128))
    add("attention", "12 heads, 128", lambda g: attention(g, 12, 128, 64))
    add("attention", "12 heads, 197", lambda g: attention(g, 12, 197, 64))
    add("attention", "8 heads, 512, causal", lambda g: attention(g, 8, 512, 64, causal=True))
    add("attention", "decoding, 1024", lambda g: decoding(g, 12, 1024, 64))
