"""Patterns of tf2onnx: transposes around convolutions, 32-bit sizes, strided slices, loops with stacked results."""

import numpy as np
from onnx import helper

from build import BOOL, END, FLOAT, INT32, INT64, Graph, floats, pick


def dynamic_slices(rng, opset):
    """Slices by sizes, with steps and with ends past the axis, then strided gathers."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", "m"])
    n, m = g.size(x, 0), g.size(x, 1)
    half = g.op("Div", m, g.int(2))
    a = g.op("Slice", x, g.ints(0), g.unsqueeze(half, 0), g.ints(1), g.ints(1))
    b = g.op("Slice", x, g.unsqueeze(half, 0), g.ints(2**31 - 1), g.ints(1), g.ints(1))
    both = g.op("Concat", b, a, axis=1)
    back = g.op("Slice", both, g.ints(-1), g.ints(-(2**31)), g.ints(1), g.ints(-1))
    g.output(g.op("Add", both, back))
    g.output(g.op("Expand", g.op("Slice", x, g.ints(0), g.ints(1), g.ints(0), g.ints(pick(rng, 1, 2))), g.shape_of(n, m)))
    return g, lambda r: {"x": floats(r, r.integers(1, 7), r.integers(1, 12))}


def sliced_by_data(rng, opset):
    """Bounds passed as an input: a slice, a tile, and a range between them."""
    g = Graph(rng, opset)
    x, begin, length = g.input("x", ["n", 5]), g.input("begin", [1], INT32), g.input("length", [1], INT32)
    end = g.op("Add", begin, length)
    part = g.op("Slice", x, g.cast(begin, INT64), g.cast(end, INT64), g.ints(0))
    g.output(part)
    g.output(g.reduce("ReduceSum", part, 0, keepdims=0))
    g.output(g.op("Tile", part, g.op("Concat", g.cast(length, INT64), g.ints(1), axis=0)))
    g.output(g.range(g.squeeze(g.cast(end, INT64), 0), start=g.squeeze(g.cast(begin, INT64), 0)), INT64)
    return g, lambda r: {"x": floats(r, r.integers(1, 9), 5), "begin": r.integers(0, 6, 1).astype(np.int32),
                         "length": r.integers(0, 4, 1).astype(np.int32)}


def narrow_size(g, x, axis):
    """tf's `shape[axis]`: a 32-bit size by `Cast`, `Slice` and `Squeeze`."""
    shape = g.cast(g.op("Shape", x), INT32)
    return g.squeeze(g.op("Slice", shape, g.ints(axis), g.ints(axis + 1), g.ints(0)), 0)


def pack(g, *sizes):
    parts = [g.const([size], np.int32) if isinstance(size, int) else g.unsqueeze(size, 0) for size in sizes]
    return g.cast(g.op("Concat", *parts, axis=0), INT64)


def channels_last(rng, opset):
    """A convolution with `SAME` padding computed from sizes, transposes around it, and upsampling to twice the size."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", "h", "w", 3])
    two = g.const(2, np.int32)
    height, width = narrow_size(g, x, 1), narrow_size(g, x, 2)
    before = g.op("Transpose", x, perm=[0, 3, 1, 2])
    if rng.integers(2):
        h = g.op("Conv", before, g.weight(4, 3, 3, 3), g.weight(4), auto_pad="SAME_UPPER", strides=[2, 2])
    else:
        # max((ceil(h / 2) - 1) * 2 + 3 - h, 0) on each axis, half of it before the data.
        pads = []
        for size in (height, width):
            out = g.op("Div", g.op("Add", size, g.const(1, np.int32)), two)
            total = g.op("Sub", g.op("Add", g.op("Mul", g.op("Sub", out, g.const(1, np.int32)), two), g.const(3, np.int32)), size)
            first = g.op("Div", total, two)
            pads.append((first, g.op("Sub", total, first)))
        h = g.op("Pad", before, pack(g, 0, 0, pads[0][0], pads[1][0], 0, 0, pads[0][1], pads[1][1]))
        h = g.op("Conv", h, g.weight(4, 3, 3, 3), g.weight(4), strides=[2, 2])
    h = g.op("Clip", h, g.float(0.0), g.float(6.0))
    h = g.op("Transpose", h, perm=[0, 2, 3, 1])
    target = pack(g, g.op("Mul", height, two), g.op("Mul", width, two))
    first = g.op("Transpose", h, perm=[0, 3, 1, 2])
    sizes = g.op("Concat", g.op("Slice", g.op("Shape", first), g.ints(0), g.ints(2), g.ints(0)), target, axis=0)
    up = g.resize(first, sizes=sizes,
              mode=pick(rng, "linear", "nearest"), coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    g.output(g.op("Transpose", up, perm=[0, 2, 3, 1]))
    g.output(g.op("Squeeze", g.reduce("ReduceMean", h, 1, 2), g.ints(1, 2)) if opset >= 13 else g.reduce("ReduceMean", h, 1, 2))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), r.integers(1, 11), r.integers(1, 11), 3)}


def boolean_mask(rng, opset):
    """`tf.boolean_mask` and `tf.where`: `NonZero`, `Transpose`, `GatherND`, `Compress`; rows scattered back."""
    g = Graph(rng, opset)
    x = g.input("x", ["n", 4])
    score = g.reduce("ReduceMax", x, 1, keepdims=0)
    keep = g.op("Greater", score, g.float(float(pick(rng, -9.0, 0.5, 1.0))))
    where = g.op("Transpose", g.op("NonZero", keep), perm=[1, 0])
    g.output(where, INT64)
    rows = g.op("GatherND", x, where)
    g.output(rows)
    g.output(g.op("Compress", x, keep, axis=0))
    g.output(g.op("ScatterND", x, where, g.op("Mul", rows, g.float(-1.0))))
    g.output(g.reduce("ReduceSum", g.op("Sigmoid", rows), 0, keepdims=0))
    count = g.size(rows, 0)
    g.output(g.op("Range", g.int(0), count, g.int(1)), INT64)
    if rng.integers(2):
        _, first, inverse, counts = g.op("Unique", g.op("Floor", score), n=4, sorted=1)
        for result in (first, inverse, counts):
            g.output(result, INT64)
    return g, lambda r: {"x": floats(r, r.integers(1, 9), 4)}


def stacked_loop(rng, opset):
    """A `while_loop` whose body gathers a step, carries a state and stacks its results; time is the first axis."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "time", 3])
    batch, steps = narrow_size(g, x, 0), g.size(x, 1)
    state = g.op("Expand", g.float(0.0), pack(g, batch, 4))
    by_time = g.op("Transpose", x, perm=[1, 0, 2])
    if rng.integers(2):
        b = g.inner()
        inside = b.op("Gather", by_time, "i", axis=0)
        next_state = b.op("Tanh", b.op("Add", b.op("MatMul", inside, b.weight(3, 4)), b.op("MatMul", "state", b.weight(4, 4))))
        goes_on = b.op("Less", b.op("Add", "i", b.int(1)), steps)
        body = b.body("body", [("i", (INT64, [])), ("on", (BOOL, [])), ("state", FLOAT)],
                      [(goes_on, (BOOL, [])), (next_state, FLOAT), (next_state, FLOAT)])
        last, every = g.op("Loop", "", g.const(True, np.bool_), state, n=2, body=body)
    else:
        b = g.inner()
        next_state = b.op("Tanh", b.op("Add", b.op("MatMul", "step", b.weight(3, 4)), b.op("MatMul", "state", b.weight(4, 4))))
        also = b.op("Identity", next_state)
        body = b.body("body", [("state", FLOAT), ("step", FLOAT)], [(next_state, FLOAT), (also, FLOAT)])
        last, every = g.op("Scan", state, by_time, n=2, body=body, num_scan_inputs=1)
    g.output(last)
    g.output(g.op("Transpose", every, perm=[1, 0, 2]))
    return g, lambda r: {"x": floats(r, r.integers(1, 4), r.integers(1, 7), 3)}


def tensor_list(rng, opset):
    """A tensor list filled by a loop, then concatenated."""
    g = Graph(rng, max(opset, 13))
    x = g.input("x", ["n", 3])
    b = g.inner()
    row = b.op("Slice", x, b.unsqueeze("i", 0), b.unsqueeze(b.op("Add", "i", b.int(1)), 0), b.ints(0))
    more = b.op("SequenceInsert", "rows", b.op("Mul", row, row))
    goes_on = b.op("Identity", "on")
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        b.nodes, "body", [info("i", INT64, []), info("on", BOOL, []), helper.make_value_info("rows", sequence)],
        [info(goes_on, BOOL, []), helper.make_value_info(more, sequence)])
    rows = g.op("Loop", g.size(x, 0), g.const(True, np.bool_), g.op("SequenceEmpty", dtype=FLOAT), body=body)
    g.output(g.op("ConcatFromSequence", rows, axis=0))
    return g, lambda r: {"x": floats(r, r.integers(1, 6), 3)}


def embedding_text(rng, opset):
    """Embeddings, one-hot labels, `Einsum`, reversed sequences, and a `Select` between two results."""
    g = Graph(rng, opset)
    ids, lengths = g.input("ids", ["batch", "seq"], INT64), g.input("lengths", ["batch"], INT64)
    x = g.op("Gather", g.weight(10, 4), ids)
    backwards = g.op("ReverseSequence", x, lengths, batch_axis=0, time_axis=1)
    if opset >= 12:
        scores = g.op("Einsum", x, backwards, equation="bqc,bkc->bqk")
        g.output(g.op("Softmax", scores, axis=-1))
    real = g.op("Not", g.op("Equal", ids, g.int(0)))
    g.output(g.op("Where", g.unsqueeze(real, 2), backwards, g.op("ConstantOfShape", g.op("Shape", x),
             value=helper.make_tensor("v", FLOAT, [1], [-1.0]))))
    hot = g.op("OneHot", ids, g.int(10), g.const([0.0, 1.0], np.float32), axis=pick(rng, -1, 1))
    g.output(g.reduce("ReduceSum", hot, 1, keepdims=0))
    g.output(g.op("Reshape", g.slice(x, 0, END, 1, 2), pack(g, narrow_size(g, x, 0), -1)))

    def call(r):
        batch, seq = r.integers(1, 5), r.integers(1, 9)
        return {"ids": r.integers(0, 10, (batch, seq)), "lengths": r.integers(1, seq + 1, batch)}
    return g, call


FAMILIES = [dynamic_slices, sliced_by_data, channels_last, boolean_mask, stacked_loop, tensor_list, embedding_text]
