"""Patterns of quantisers: quantise-dequantise pairs, integer operators, dynamically quantised products."""

import numpy as np

from build import FLOAT, INT32, Graph, floats, pick


def int8(g, *shape):
    return g.const(g.rng.integers(-100, 100, shape), np.int8)


def quantised(rng, opset):
    """QDQ around a convolution, or the same in `QLinearConv`, and a dynamically quantised product."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 3, "h", "w"])
    scale, zero = g.float(0.02), g.const(128, np.uint8)
    w_scale, w_zero = g.float(0.01), g.const(0, np.int8)
    weights = int8(g, 4, 3, 3, 3)
    q = g.op("QuantizeLinear", x, scale, zero)
    step = 0.05
    if rng.integers(2):
        w = g.op("DequantizeLinear", weights, w_scale, w_zero)
        y = g.op("Conv", g.op("DequantizeLinear", q, scale, zero), w, pads=[1, 1, 1, 1])
        step = 0.02
    else:
        y = g.op("QLinearConv", q, scale, zero, weights, w_scale, w_zero, g.float(0.05), zero, pads=[1, 1, 1, 1])
        y = g.op("DequantizeLinear", y, g.float(0.05), zero)
    g.output(g.op("Relu", y), step=step)
    flat = g.op("Flatten", g.op("GlobalAveragePool", y))
    a, a_scale, a_zero = g.op("DynamicQuantizeLinear", flat, n=3)
    sums = g.op("MatMulInteger", a, int8(g, 4, 5), a_zero)
    # An element of `a` may be off by one step of its scale, and is multiplied by up to 100.
    g.output(g.op("Mul", g.op("Cast", sums, to=1), a_scale), step=(100.0, g.output(a_scale)))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 3, r.integers(1, 12), r.integers(1, 12))}


def qdq_block(rng, opset):
    """An attention block with QDQ pairs around every product and weights quantised per channel."""
    g = Graph(rng, max(opset, 13))
    x = g.input("x", ["batch", "seq", 8])

    def pair(v, scale, zero=128):
        q = g.op("QuantizeLinear", v, g.float(scale), g.const(zero, np.uint8))
        return g.op("DequantizeLinear", q, g.float(scale), g.const(zero, np.uint8))

    def linear(v):
        scales = g.const(rng.random(8) * 0.005 + 0.003, np.float32)
        w = g.op("DequantizeLinear", int8(g, 8, 8), scales, g.const([0] * 8, np.int8), axis=1)
        return g.op("Add", g.op("MatMul", v, w), g.weight(8))

    h = pair(x, 0.03)
    q, k, v = (pair(linear(h), 0.04) for _ in range(3))
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1])), g.float(0.3))
    shares = pair(g.op("Softmax", pair(scores, 0.1), axis=-1), 1 / 255, 0)
    mixed = pair(g.op("MatMul", shares, v), 0.04)
    y = g.op("Add", x, linear(mixed))
    # A value between two steps may round either way, and be off by a step in every later pair.
    g.output(y, step=0.2)
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 9), 8)}


def dynamic_linear(rng, opset):
    """Dynamically quantised layers, as `quantize_dynamic` writes them."""
    g, narrow = Graph(rng, opset), pick(rng, np.int8, np.uint8)
    x = g.input("x", ["batch", "seq", 6])

    def linear(v, n_in, n_out):
        q, scale, zero = g.op("DynamicQuantizeLinear", v, n=3)
        weights = g.const(rng.integers(0 if narrow == np.uint8 else -100, 100, (n_in, n_out)), narrow)
        sums = g.op("MatMulInteger", q, weights, zero, g.const(pick(rng, 0, 3), narrow))
        scales = g.op("Mul", scale, g.float(0.004))
        return g.op("Add", g.op("Mul", g.op("Cast", sums, to=FLOAT), scales), g.weight(n_out))

    g.output(linear(x, 6, 5), step=0.02)
    g.output(linear(g.op("Relu", linear(x, 6, 8)), 8, 3), step=0.1)
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 9), 6)}


def integer_graph(rng, opset):
    """Integer-only operators: `QLinearMatMul`, `ConvInteger`, pooling of bytes, and contributed operators."""
    g = Graph(rng, max(opset, 12))
    x = g.input("x", ["b", 2, "h", "w"])
    scale, zero = g.float(0.03), g.const(pick(rng, 128, 100), np.uint8)
    q = g.op("QuantizeLinear", x, scale, zero)
    q = g.op("MaxPool", q, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    sums = g.op("ConvInteger", q, int8(g, 3, 2, 3, 3), zero, pads=[1, 1, 1, 1])
    g.output(sums, INT32)
    y = g.op("QLinearConv", q, scale, zero, int8(g, 3, 2, 1, 1), g.const(rng.random(3) * 0.01 + 0.002, np.float32),
             g.const([0, 0, 0], np.int8), scale, zero, g.const(rng.integers(-99, 99, 3), np.int32))
    if rng.integers(2):
        y = g.op("QLinearAdd", y, scale, zero, y, scale, zero, g.float(0.06), zero, domain="com.microsoft")
        y = g.op("QLinearGlobalAveragePool", y, g.float(0.06), zero, scale, zero, domain="com.microsoft", channels_last=0)
        y = g.op("Flatten", y)
    else:
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 3, 1]), g.ints(-1, 3))
    y = g.op("QLinearMatMul", y, scale, zero, int8(g, 3, 4), g.float(0.01), g.const(0, np.int8), g.float(0.05), zero)
    g.output(g.op("DequantizeLinear", y, g.float(0.05), zero), step=0.11)
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 2, r.integers(1, 8), r.integers(1, 8))}


FAMILIES = [quantised, qdq_block, dynamic_linear, integer_graph]
