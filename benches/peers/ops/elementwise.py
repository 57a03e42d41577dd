"""Element-wise operators: activations, arithmetic, comparisons, broadcasts, casts, quantisation."""
import numpy as np

FEATURES, TOKENS, SMALL = "N:4 c:64 H:56 W:56", "N:8 T:128 c:768", "N:1 c:96"

ACTIVATIONS = [
    ("Relu", {}), ("LeakyRelu", {}), ("Sigmoid", {}), ("Tanh", {}), ("HardSigmoid", {}), ("HardSwish", {}), ("Elu", {}), ("Selu", {}),
    ("Celu", {}), ("Softplus", {}), ("Softsign", {}), ("Mish", {}), ("Gelu", {}), ("Erf", {}), ("Exp", {}), ("ThresholdedRelu", {}),
    ("Abs", {}), ("Neg", {}), ("Floor", {}), ("Round", {}), ("Sign", {}), ("Sin", {}), ("Cos", {}), ("Atan", {}), ("Shrink", {}),
]
POSITIVE = ["Sqrt", "Log", "Reciprocal"]
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Pow", "Greater", "Equal"]
BROADCASTS = [
    ("scalar", FEATURES, "1"), ("channel", FEATURES, "1 c:64 1 1"), ("row", TOKENS, "c:768"), ("column", TOKENS, "N:8 T:128 1"),
    ("outer", "N:512 1", "1 M:1024"), ("image", FEATURES, "N:4 1 H:56 W:56"), ("middle", "N:8 T:128 h:12 c:64", "N:8 1 h:12 c:64"),
]
UNKNOWN = [  # Sizes of 1 that are unknown to the model: every axis of the second operand has its own symbol.
    ("row", "N:8 T:128 C:768", "A:1 B:1 D:768"), ("column", "N:8 T:128 C:768", "A:8 B:128 D:1"), ("all", "N:8 T:128 C:768", "A:1 B:1 D:1"),
    ("none", "N:8 T:128 C:768", "A:8 B:128 D:768"), ("channel", "N:4 C:64 H:56 W:56", "A:1 B:64 D:1 E:1"),
]
CASTS = [("f32", "f16"), ("f16", "f32"), ("f32", "i32"), ("i32", "f32"), ("f32", "i64"), ("i64", "f32"), ("f32", "u8"), ("u8", "f32"),
         ("f32", "bool"), ("i64", "i32"), ("f32", "f64"), ("bool", "f32")]


def configurations(add):
    for kind, attributes in ACTIVATIONS:
        add("activations", kind.lower(), lambda g, k=kind, a=attributes: g.output(g.node(k, [g.input(FEATURES)], **a)))
    for kind in POSITIVE:
        add("activations", kind.lower(), lambda g, k=kind: g.output(g.node(k, [g.input(FEATURES, low=0.1, high=4)])))
    add("activations", "relu, few elements", lambda g: g.output(g.Relu(g.input(SMALL))))
    add("activations", "gelu, tokens", lambda g: g.output(g.Gelu(g.input(TOKENS), approximate="tanh")))
    add("activations", "silu", lambda g: (lambda x: g.output(g.Mul(x, g.Sigmoid(x))))(g.input(FEATURES)))
    add("activations", "clip", lambda g: g.output(g.Clip(g.input(FEATURES), g.const(0.0, "f32"), g.const(6.0, "f32"))))
    add("activations", "prelu", lambda g: g.output(g.PRelu(g.input(FEATURES), g.weights(64, 1, 1))))
    add("activations", "isnan, where", lambda g: (lambda x: g.output(g.Where(g.IsNaN(x), g.const(0.0, "f32"), x)))(g.input(FEATURES)))

    for kind in BINARY:
        positive = {"low": 0.5, "high": 2} if kind in ("Pow", "Div") else {}
        add("arithmetic", kind.lower(), lambda g, k=kind, p=positive: g.output(g.node(k, [g.input(TOKENS, **p), g.input(TOKENS, **p)])))
    add("arithmetic", "square", lambda g: g.output(g.Pow(g.input(TOKENS), g.const(2.0, "f32"))))
    add("arithmetic", "where", lambda g: g.output(g.Where(g.input(TOKENS, "bool"), g.input(TOKENS), g.input(TOKENS))))
    add("arithmetic", "and", lambda g: g.output(g.And(g.input(TOKENS, "bool"), g.input(TOKENS, "bool"))))
    add("arithmetic", "not", lambda g: g.output(g.Not(g.input(TOKENS, "bool"))))
    add("arithmetic", "sum of four", lambda g: g.output(g.Sum(*[g.input(TOKENS) for _ in range(4)])))
    add("arithmetic", "multiply, add, relu", lambda g: g.output(g.Relu(g.Add(g.Mul(g.input(TOKENS), g.input(TOKENS)), g.input(TOKENS)))))
    for dtype in ("f16", "i64", "i32", "u8"):
        for kind in ("Add", "Mul"):
            add("small and integer types", f"{kind.lower()} {dtype}", lambda g, k=kind, t=dtype: g.output(g.node(k, [g.input(TOKENS, t), g.input(TOKENS, t)])))
    for kind in ("Relu", "Sigmoid", "Tanh", "Gelu"):
        add("small and integer types", f"{kind.lower()} f16", lambda g, k=kind: g.output(g.node(k, [g.input(TOKENS, "f16")])))
    add("small and integer types", "sigmoid bf16", lambda g: g.output(g.Cast(g.Sigmoid(g.Cast(g.input(TOKENS), to=16)), to=1)))
    add("small and integer types", "div i64", lambda g: g.output(g.Div(g.input(TOKENS, "i64"), g.input(TOKENS, "i64", 1, 50))))
    add("small and integer types", "mod i64", lambda g: g.output(g.Mod(g.input(TOKENS, "i64"), g.input(TOKENS, "i64", 1, 50))))
    add("small and integer types", "max i32", lambda g: g.output(g.Max(g.input(TOKENS, "i32"), g.input(TOKENS, "i32"))))
    add("small and integer types", "greater i64", lambda g: g.output(g.Greater(g.input(TOKENS, "i64"), g.input(TOKENS, "i64"))))
    add("small and integer types", "equal u8", lambda g: g.output(g.Equal(g.input(TOKENS, "u8"), g.input(TOKENS, "u8"))))
    add("small and integer types", "bit shift u8", lambda g: g.output(g.BitShift(g.input(TOKENS, "u8"), g.const(3, "u8"), direction="RIGHT")))
    add("small and integer types", "where i64", lambda g: g.output(g.Where(g.input(TOKENS, "bool"), g.input(TOKENS, "i64"), g.input(TOKENS, "i64"))))
    add("small and integer types", "add f64", lambda g: g.output(g.Add(g.input(TOKENS, "f64"), g.input(TOKENS, "f64"))))

    for name, a, b in BROADCASTS:
        add("broadcasts", name, lambda g, a=a, b=b: g.output(g.Add(g.input(a), g.input(b))))
    for name, a, b in UNKNOWN:
        add("broadcasts", f"unknown sizes, {name}", lambda g, a=a, b=b: g.output(g.Mul(g.input(a), g.input(b))))

    for source, target in CASTS:
        bounds = {"low": 0, "high": 200} if "u8" in (source, target) else {}
        add("casts", f"{source} to {target}", lambda g, s=source, t=target, b=bounds: g.output(g.Cast(g.input(TOKENS, s, **b), to=TYPE_CODES[t])))
    add("quantisation", "quantise u8", lambda g: g.output(g.QuantizeLinear(g.input(TOKENS), g.const(0.02, "f32"), g.const(128, "u8"))))
    add("quantisation", "quantise i8 per channel", lambda g: g.output(g.QuantizeLinear(
        g.input(FEATURES), g.const(np.linspace(0.01, 0.03, 64), "f32"), g.const(np.zeros(64), "i8"), axis=1)))
    add("quantisation", "dequantise u8", lambda g: g.output(g.DequantizeLinear(g.input(TOKENS, "u8"), g.const(0.02, "f32"), g.const(128, "u8"))))
    add("quantisation", "dequantise i8 per channel", lambda g: g.output(g.DequantizeLinear(
        g.input(FEATURES, "i8"), g.const(np.linspace(0.01, 0.03, 64), "f32"), g.const(np.zeros(64), "i8"), axis=1)))
    add("quantisation", "dynamic quantise", lambda g: g.output(*g.node("DynamicQuantizeLinear", [g.input(TOKENS)], outputs=3)))
    add("quantisation", "quantise, dequantise", lambda g: (lambda s, z: g.output(g.DequantizeLinear(g.QuantizeLinear(g.input(TOKENS), s, z), s, z)))(
        g.const(0.02, "f32"), g.const(128, "u8")))


TYPE_CODES = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "bf16": 16}
