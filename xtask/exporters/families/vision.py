"""Vision and audio backbones: padding to multiples, windows, resizing to other tensors' sizes, masks from lengths."""

import numpy as np
from onnx import TensorProto

from build import END, FLOAT, INT64, Graph, floats, pick


def spatial_sizes(g, of, channels_of):
    """The batch and channels of one tensor, concatenated with the height and width of another."""
    return g.op("Concat", g.slice(g.op("Shape", channels_of), 0, 2, 0), g.slice(g.op("Shape", of), 2, 4, 0), axis=0)


def interpolation(rng):
    mode = pick(rng, "nearest", "linear", "cubic")
    smooth = pick(rng, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    coordinates = "asymmetric" if mode == "nearest" else smooth
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    return attributes


def pads_and_resizes(rng, opset):
    """Padding to a multiple, then a resize to the size of another tensor."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 2, "h", "w"])
    k = g.int(pick(rng, 2, 4, 8))
    extra = [g.op("Mod", g.op("Neg", g.size(x, axis)), k) for axis in (2, 3)]
    mode = pick(rng, "constant", "constant", "edge", "reflect")
    padded = g.op("Pad", x, g.shape_of(0, 0, 0, 0, 0, 0, extra[0], extra[1]), mode=mode)
    down = g.op("MaxPool", padded, kernel_shape=[2, 2], strides=[2, 2])
    conv = g.op("Conv", down, g.weight(3, 2, 3, 3), pads=[1, 1, 1, 1])
    attributes, sizes = interpolation(rng), spatial_sizes(g, x, conv)
    if rng.integers(2):
        g.output(g.resize(conv, sizes=sizes, **attributes))
    else:
        ratio = g.op("Div", g.cast(sizes, FLOAT), g.cast(g.op("Shape", conv), FLOAT))
        scale = g.op("Concat", g.const([1.0, 1.0], np.float32), g.slice(ratio, 2, 4, 0), axis=0)
        g.output(g.resize(conv, scales=scale, **attributes))
    least = 8 if mode == "reflect" else 2
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 2, r.integers(least, 20), r.integers(least, 20))}


def u_net(rng, opset):
    """Downsampling, upsampling to the skip's size, concatenation; group norm by a reshape; attention over pixels."""
    g = Graph(rng, opset)
    x = g.input("x", ["b", 3, "h", "w"])

    def norm(h, groups):
        shape = g.op("Shape", h)
        flat = g.op("Reshape", h, g.ints(0, groups, -1))
        flat = g.op("InstanceNormalization", flat, g.const(np.ones(groups), np.float32), g.const(np.zeros(groups), np.float32))
        return g.op("Reshape", flat, shape)

    def swish(h):
        return g.op("Mul", h, g.op("Sigmoid", h))

    first = swish(norm(g.op("Conv", x, g.weight(4, 3, 3, 3), g.weight(4), pads=[1, 1, 1, 1]), 2))
    low = g.op("Conv", first, g.weight(4, 4, 3, 3), g.weight(4), pads=[1, 1, 1, 1], strides=[2, 2])
    if rng.integers(2):
        shape = g.op("Shape", low)
        flat = g.op("Transpose", g.op("Reshape", low, g.ints(0, 4, -1)), perm=[0, 2, 1])
        scores = g.op("Softmax", g.op("MatMul", flat, g.op("Transpose", flat, perm=[0, 2, 1])), axis=-1)
        low = g.op("Add", low, g.op("Reshape", g.op("Transpose", g.op("MatMul", scores, flat), perm=[0, 2, 1]), shape))
    else:
        low = g.op("AveragePool", low, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        low = g.op("ConvTranspose", low, g.weight(4, 4, 2, 2), strides=[2, 2])
    up = g.resize(low, sizes=spatial_sizes(g, first, low), **interpolation(rng))
    g.output(g.op("Conv", g.op("Concat", up, first, axis=1), g.weight(2, 8, 1, 1)))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 3, r.integers(3, 12), r.integers(3, 12))}


def window_attention(rng, opset):
    """Pixels padded to whole windows and rolled, attention per window, then the inverse."""
    g, window = Graph(rng, opset), pick(rng, 2, 3)
    x = g.input("x", ["b", "h", "w", 4])
    batch, height, width = (g.size(x, axis) for axis in range(3))
    k = g.int(window)
    extra = [g.op("Mod", g.op("Sub", k, g.op("Mod", size, k)), k) for size in (height, width)]
    h = g.op("Pad", x, g.shape_of(0, 0, 0, 0, 0, extra[0], extra[1], 0))
    shift = int(rng.integers(2))
    if shift:
        for axis in (1, 2):
            h = g.op("Concat", g.slice(h, shift, END, axis), g.slice(h, 0, shift, axis), axis=axis)
    tall, wide = g.size(h, 1), g.size(h, 2)
    rows, columns = g.op("Div", tall, k), g.op("Div", wide, k)
    h = g.op("Reshape", h, g.shape_of(batch, rows, window, columns, window, 4))
    h = g.op("Reshape", g.op("Transpose", h, perm=[0, 1, 3, 2, 4, 5]), g.ints(-1, window * window, 4))
    scores = g.op("MatMul", h, g.op("Transpose", h, perm=[0, 2, 1]))
    h = g.op("MatMul", g.op("Softmax", scores, axis=-1), h)
    n = g.op("Div", g.size(h, 0), g.op("Mul", rows, columns))
    h = g.op("Reshape", h, g.shape_of(n, rows, columns, window, window, -1))
    h = g.op("Reshape", g.op("Transpose", h, perm=[0, 1, 3, 2, 4, 5]), g.shape_of(n, tall, wide, -1))
    if shift:
        for axis in (1, 2):
            h = g.op("Concat", g.slice(h, -shift, END, axis), g.slice(h, 0, -shift, axis), axis=axis)
    h = g.op("Slice", h, g.ints(0, 0), g.shape_of(height, width), g.ints(1, 2))
    g.output(g.op("Add", x, h))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), r.integers(1, 9), r.integers(1, 9), 4)}


def image_bytes(rng, opset):
    """Preprocessing in the graph: bytes resized to a size given as an input, transposed, scaled and normalised."""
    g = Graph(rng, opset)
    image, size = g.input("image", ["h", "w", 3], TensorProto.UINT8), g.input("size", [2], INT64)
    channels_first = g.op("Transpose", image, perm=[2, 0, 1])
    x = g.unsqueeze(channels_first, 0)
    sizes = g.op("Concat", g.ints(1, 3), size, axis=0)
    if rng.integers(2):
        x = g.resize(x, sizes=sizes, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        x = g.cast(x, FLOAT)
    else:
        x = g.resize(g.cast(x, FLOAT), sizes=sizes, mode="linear",
                 coordinate_transformation_mode="half_pixel")
    x = g.op("Div", g.op("Sub", g.op("Div", x, g.float(255.0)), g.const([[[[0.5]], [[0.4]], [[0.45]]]], np.float32)),
             g.const([[[[0.2]], [[0.25]], [[0.3]]]], np.float32))
    g.output(x)
    back = g.op("Clip", g.op("Add", g.op("Mul", x, g.float(50.0)), g.float(120.0)), g.float(0.0), g.float(255.0))
    # Bytes again; a number close to an integer may be truncated to either neighbour.
    g.output(g.cast(g.op("Cast", back, to=TensorProto.UINT8), FLOAT), step=1.0)

    def call(r):
        return {"image": r.integers(0, 256, (r.integers(2, 14), r.integers(2, 14), 3)).astype(np.uint8),
                "size": r.integers(2, 14, 2)}
    return g, call


def audio_frames(rng, opset):
    """A subsampling encoder: sizes by a formula, a mask from lengths, frames gathered by a grid of indices."""
    g = Graph(rng, opset)
    x, lengths = g.input("x", ["batch", "time", 6]), g.input("lengths", ["batch"], INT64)
    h = g.op("Conv", g.unsqueeze(x, 1), g.weight(2, 1, 3, 3), strides=[2, 2])
    batch, frames = g.size(h, 0), g.size(h, 2)
    h = g.op("Reshape", g.op("Transpose", h, perm=[0, 2, 1, 3]), g.shape_of(batch, frames, 4))
    lengths = g.op("Add", g.op("Div", g.op("Sub", lengths, g.int(3)), g.int(2)), g.int(1))
    seen = g.op("Less", g.unsqueeze(g.range(frames), 0), g.unsqueeze(lengths, 1))
    h = g.op("Where", g.unsqueeze(seen, 2), h, g.float(0.0))
    normal = g.op("Mul", g.op("Tanh", h), g.op("Softplus", h))
    depthwise = g.op("Conv", g.op("Transpose", normal, perm=[0, 2, 1]), g.weight(4, 1, 3), pads=[1, 1], group=4)
    g.output(g.op("Add", h, g.op("Transpose", depthwise, perm=[0, 2, 1])))
    g.output(g.op("Div", g.reduce("ReduceSum", h, 1, keepdims=0), g.unsqueeze(g.cast(lengths, FLOAT), 1)))
    if rng.integers(2):
        count = g.op("Add", g.op("Div", g.op("Sub", frames, g.int(1)), g.int(2)), g.int(1))
        grid = g.op("Add", g.unsqueeze(g.op("Mul", g.range(count), g.int(2)), 1), g.const([[0, 1]], np.int64))
        padded = g.op("Pad", h, g.ints(0, 0, 0, 0, 1, 0))
        g.output(g.op("Gather", padded, grid, axis=1))

    def call(r):
        batch, time = r.integers(1, 4), r.integers(3, 20)
        return {"x": floats(r, batch, time, 6), "lengths": r.integers(3, time + 1, batch)}
    return g, call


def pixel_shuffle(rng, opset):
    """Depth to space, by op and by reshapes; adaptive pooling to size one; grid sampling."""
    g, block = Graph(rng, opset), 2
    x = g.input("x", ["b", 4, "h", "w"])
    batch, height, width = g.size(x, 0), g.size(x, 2), g.size(x, 3)
    h = g.op("Reshape", x, g.shape_of(batch, 1, block, block, height, width))
    h = g.op("Transpose", h, perm=[0, 1, 4, 2, 5, 3])
    two = g.int(block)
    big = g.op("Reshape", h, g.shape_of(batch, 1, g.op("Mul", height, two), g.op("Mul", width, two)))
    g.output(big)
    g.output(g.op("DepthToSpace", x, blocksize=block, mode=pick(rng, "CRD", "DCR")))
    g.output(g.op("Flatten", g.op("GlobalAveragePool", x), axis=1))
    if opset >= 16:
        row, column = (g.op("Sub", g.op("Mul", g.op("Div", g.cast(g.range(size), FLOAT), g.cast(size, FLOAT)), g.float(2.0)),
                            g.float(0.9)) for size in (height, width))
        grid = g.op("Concat", *(g.op("Expand", g.op("Reshape", v, g.ints(*shape)), g.shape_of(batch, height, width, 1))
                                for v, shape in ((column, (1, 1, -1, 1)), (row, (1, -1, 1, 1)))), axis=-1)
        mode = pick(rng, "bilinear" if g.opset < 20 else "linear", "nearest")
        g.output(g.op("GridSample", x, grid, mode=mode, padding_mode=pick(rng, "zeros", "border"), align_corners=pick(rng, 0, 1)))
    return g, lambda r: {"x": floats(r, r.integers(1, 3), 4, r.integers(1, 8), r.integers(1, 8))}


FAMILIES = [pads_and_resizes, u_net, window_attention, image_bytes, audio_frames, pixel_shuffle]
