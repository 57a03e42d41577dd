"""Operators that move data: transposes, slices, concatenation, padding, gathers and scatters, resizing."""
import numpy as np

FEATURES, TOKENS, IMAGE = "N:4 c:64 H:56 W:56", "N:8 T:128 c:768", "N:1 c:3 H:640 W:640"
TRANSPOSES = [
    ("matrix", "N:1024 M:1024", [1, 0]), ("short inner", "N:4096 c:16", [1, 0]), ("inner of 3", "N:4 H:224 W:224 c:3", [0, 3, 1, 2]),
    ("to inner of 3", "N:4 c:3 H:224 W:224", [0, 2, 3, 1]), ("channels last", FEATURES, [0, 2, 3, 1]), ("channels first", "N:4 H:56 W:56 c:64", [0, 3, 1, 2]),
    ("split heads", "N:8 T:128 h:12 c:64", [0, 2, 1, 3]), ("keys", "N:8 T:128 h:12 c:64", [0, 2, 3, 1]), ("five axes", "N:2 a:3 b:85 H:40 W:40", [0, 1, 3, 4, 2]),
    ("windows", "N:2 H:8 a:7 W:8 b:7 c:96", [0, 1, 3, 2, 4, 5]), ("reversed", "N:32 b:48 T:64 c:24", [3, 2, 1, 0]),
]
PADS = [("constant", {}), ("edge", {"mode": "edge"}), ("reflect", {"mode": "reflect"}), ("wrap", {"mode": "wrap"})]
RESIZES = [
    ("nearest, twice", {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}, 2.0, FEATURES),
    ("nearest, half pixel", {"mode": "nearest"}, 2.0, FEATURES),
    ("nearest, 1.5 times", {"mode": "nearest"}, 1.5, FEATURES),
    ("linear, twice", {"mode": "linear"}, 2.0, FEATURES),
    ("linear, aligned corners", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, 2.0, FEATURES),
    ("linear, 1.7 times", {"mode": "linear"}, 1.7, FEATURES),
    ("linear, half", {"mode": "linear"}, 0.5, FEATURES),
    ("linear, picture", {"mode": "linear"}, 0.35, IMAGE),
    ("cubic, twice", {"mode": "cubic"}, 2.0, FEATURES),
    ("cubic, half", {"mode": "cubic"}, 0.5, FEATURES),
]


def focus(g):
    """The first layer of some detectors: the four grids of every second pixel, concatenated along the channels."""
    x = g.input(IMAGE)
    steps = g.const([2, 2])
    part = lambda y, z: g.Slice(x, g.const([y, z]), g.const([1 << 40, 1 << 40]), g.const([2, 3]), steps)
    return g.output(g.Concat(part(0, 0), part(1, 0), part(0, 1), part(1, 1), axis=1))


def shuffle(g):
    """Channels shuffled in groups."""
    x = g.Reshape(g.input(FEATURES), g.const([0, 4, 16, 56, 56]))
    return g.output(g.Reshape(g.Transpose(x, perm=[0, 2, 1, 3, 4]), g.const([0, 64, 56, 56])))


def rotary(g):
    """Rotary position embedding of queries."""
    x = g.input("N:2 h:12 T:256 64")
    low, high = g.node("Split", [x], outputs=2, axis=-1, num_outputs=2)
    turned = g.Concat(g.Neg(high), low, axis=-1)
    cosine, sine = g.input("T:256 64"), g.input("T:256 64")
    return g.output(g.Add(g.Mul(x, cosine), g.Mul(turned, sine)))


def slices(g, text, starts, ends, axes, steps):
    return g.output(g.Slice(g.input(text), *map(g.const, (starts, ends, axes, steps))))


def configurations(add):
    for name, text, order in TRANSPOSES:
        add("transposes", name, lambda g, t=text, p=order: g.output(g.Transpose(g.input(t), perm=p)))
    add("transposes", "f16 matrix", lambda g: g.output(g.Transpose(g.input("N:1024 M:1024", "f16"), perm=[1, 0])))
    add("transposes", "u8 picture to channels first", lambda g: g.output(g.Transpose(g.input("N:4 H:224 W:224 c:3", "u8"), perm=[0, 3, 1, 2])))
    add("transposes", "channel shuffle", shuffle)
    add("transposes", "depth to space", lambda g: g.output(g.DepthToSpace(g.input(FEATURES), blocksize=2)))
    add("transposes", "depth to space, CRD", lambda g: g.output(g.DepthToSpace(g.input(FEATURES), blocksize=2, mode="CRD")))
    add("transposes", "space to depth", lambda g: g.output(g.SpaceToDepth(g.input(FEATURES), blocksize=2)))

    add("slices and joins", "focus", focus)
    add("slices and joins", "rotary embedding", rotary)
    for axis in (1, 2, 3):
        add("slices and joins", f"concat of two, axis {axis}", lambda g, a=axis: g.output(g.Concat(g.input(FEATURES), g.input(FEATURES), axis=a)))
    add("slices and joins", "concat of six, channels", lambda g: g.output(g.Concat(*[g.input(FEATURES) for _ in range(6)], axis=1)))
    add("slices and joins", "concat of a token", lambda g: g.output(g.Concat(g.input("N:8 1 c:768"), g.input(TOKENS), axis=1)))
    add("slices and joins", "split in three, inner", lambda g: g.output(*g.node("Split", [g.input("N:8 T:128 2304")], outputs=3, axis=-1, num_outputs=3)))
    add("slices and joins", "split in two, channels", lambda g: g.output(*g.node("Split", [g.input(FEATURES)], outputs=2, axis=1, num_outputs=2)))
    add("slices and joins", "slice of rows", lambda g: slices(g, TOKENS, [1], [120], [1], [1]))
    add("slices and joins", "slice of columns", lambda g: slices(g, TOKENS, [5], [700], [2], [1]))
    add("slices and joins", "every second column", lambda g: slices(g, FEATURES, [0], [56], [3], [2]))
    add("slices and joins", "every second row", lambda g: slices(g, FEATURES, [0], [56], [2], [2]))
    add("slices and joins", "every third column", lambda g: slices(g, TOKENS, [1], [768], [2], [3]))
    add("slices and joins", "flip of columns", lambda g: slices(g, FEATURES, [-1], [-1 << 40], [3], [-1]))
    add("slices and joins", "flip of rows", lambda g: slices(g, FEATURES, [-1], [-1 << 40], [2], [-1]))
    for name, attributes in PADS:
        add("padding", name, lambda g, a=attributes: g.output(g.Pad(g.input(FEATURES), g.const([0, 0, 3, 3, 0, 0, 3, 3]), **a)))
    add("padding", "constant, channels", lambda g: g.output(g.Pad(g.input(FEATURES), g.const([0, 8, 0, 0, 0, 8, 0, 0]))))
    add("padding", "reflect, signal", lambda g: g.output(g.Pad(g.input("N:4 T:48000"), g.const([0, 512, 0, 512]), mode="reflect")))
    add("padding", "expand", lambda g: g.output(g.Expand(g.input("N:8 T:128 1"), g.const([8, 128, 768]))))
    add("padding", "expand keys", lambda g: g.output(g.Expand(g.input("N:2 h:4 1 T:256 c:64"), g.const([2, 4, 4, 256, 64]))))
    add("padding", "tile rows", lambda g: g.output(g.Tile(g.input("N:8 c:768"), g.const([64, 1]))))
    add("padding", "tile columns", lambda g: g.output(g.Tile(g.input("N:512 c:96"), g.const([1, 8]))))
    add("padding", "triangle", lambda g: g.output(g.Trilu(g.input("N:8 T:512 T:512"), upper=0)))

    add("gathers", "embedding", lambda g: g.output(g.Gather(g.weights(30000, 384), g.input("N:8 T:128", "i64", 0, 30000))).moves(8 * 128 * (8 + 2 * 4 * 384)))
    add("gathers", "rows", lambda g: g.output(g.Gather(g.input("N:4096 c:256"), g.input("T:2048", "i64", 0, 4096))).moves(2048 * (8 + 2 * 256 * 4)))
    add("gathers", "columns", lambda g: g.output(g.Gather(g.input("N:512 c:1024"), g.input("T:512", "i64", 0, 1024), axis=1)))
    add("gathers", "channels", lambda g: g.output(g.Gather(g.input(FEATURES), g.const(np.arange(63, -1, -2)), axis=1)))
    add("gathers", "one of the last", lambda g: g.output(g.Gather(g.input(TOKENS), g.const(-1), axis=1)).moves(2 * 8 * 768 * 4))
    add("gathers", "elements, inner", lambda g: g.output(g.GatherElements(g.input("N:512 c:1024"), g.input("N:512 k:512", "i64", 0, 1024), axis=1)))
    add("gathers", "elements, outer", lambda g: g.output(g.GatherElements(g.input("N:1024 c:512"), g.input("k:512 c:512", "i64", 0, 1024), axis=0)))
    add("gathers", "nd, rows", lambda g: g.output(g.GatherND(g.input("N:64 T:64 c:128"), g.input("k:2048 2", "i64", 0, 64))))
    add("gathers", "nd, elements", lambda g: g.output(g.GatherND(g.input("N:512 T:512"), g.input("k:65536 2", "i64", 0, 512))))
    permutation = np.random.default_rng(1).permutation(4096)[:2048, None]
    add("scatters", "nd, rows", lambda g: g.output(g.ScatterND(g.input("N:4096 c:256"), g.const(permutation), g.input("k:2048 c:256"))))
    add("scatters", "nd, rows, indices given", lambda g: g.output(g.ScatterND(g.input("N:4096 c:256"), g.input("k:2048 1", "i64", value=permutation), g.input("k:2048 c:256"))))
    add("scatters", "nd, rows added", lambda g: g.output(g.ScatterND(g.input("N:4096 c:256"), g.input("k:2048 1", "i64", 0, 4096), g.input("k:2048 c:256"), reduction="add")))
    columns = np.stack([np.random.default_rng(i).permutation(1024)[:512] for i in range(512)])
    add("scatters", "elements, inner", lambda g: g.output(g.ScatterElements(g.input("N:512 c:1024"), g.input("N:512 k:512", "i64", value=columns), g.input("N:512 k:512"), axis=1)))
    add("scatters", "elements, outer, added", lambda g: g.output(g.ScatterElements(
        g.input("N:1024 c:512"), g.input("k:512 c:512", "i64", 0, 1024), g.input("k:512 c:512"), axis=0, reduction="add")))
    add("scatters", "one-hot", lambda g: g.output(g.OneHot(g.input("N:1024", "i64", 0, 1000), g.const(1000), g.const([0.0, 1.0], "f32"))))
    add("scatters", "reverse sequences", lambda g: g.output(g.ReverseSequence(
        g.input("T:128 N:8 c:256"), g.input("N:8", "i64", 1, 128), batch_axis=1, time_axis=0)))
    add("scatters", "nonzero", lambda g: g.output(g.NonZero(g.input("N:512 T:512", "bool"))))
    add("scatters", "compress", lambda g: g.output(g.Compress(g.input("N:4096 c:256"), g.input("N:4096", "bool"), axis=0)))

    for name, attributes, factor, text in RESIZES:
        add("resolution", name, lambda g, a=attributes, f=factor, t=text: g.output(g.Resize(g.input(t), None, g.const([1, 1, f, f], "f32"), **a)))
    add("resolution", "nearest, 3D", lambda g: g.output(g.Resize(g.input("N:1 c:32 D:16 H:28 W:28"), None, g.const([1, 1, 2, 2, 2], "f32"), mode="nearest")))
    add("resolution", "linear, 1D", lambda g: g.output(g.Resize(g.input("N:4 c:64 T:2000"), None, g.const([1, 1, 2], "f32"), mode="linear")))
    add("resolution", "grid sample", lambda g: g.output(g.GridSample(g.input("N:2 c:32 H:64 W:64"), g.input("N:2 A:64 B:64 2", low=-1.1, high=1.1), mode="linear")))
    add("resolution", "grid sample, nearest", lambda g: g.output(g.GridSample(g.input("N:2 c:32 H:64 W:64"), g.input("N:2 A:64 B:64 2", low=-1.1, high=1.1), mode="nearest")))
