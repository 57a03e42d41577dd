"""Detector heads: anchors, non-maximum suppression, regions of interest, masks."""

import numpy as np
from onnx import helper

from build import FLOAT, INT64, Graph, floats, pick


def random_boxes(r, *shape, span=10.0, extent=4.0):
    corner = r.random((*shape, 2)) * span
    return np.concatenate([corner, corner + r.random((*shape, 2)) * extent + 0.5], -1).astype(np.float32)


def detector_head(rng, opset):
    """Boxes and scores through `NonMaxSuppression`, `TopK`, `GatherND` and `NonZero`."""
    g = Graph(rng, opset)
    boxes, scores = g.input("boxes", [1, "n", 4]), g.input("scores", [1, 2, "n"])
    chosen = g.op("NonMaxSuppression", boxes, scores, g.ints(pick(rng, 3, 10)), g.const([0.5], np.float32),
                  g.const([0.1], np.float32))
    g.output(chosen, INT64)
    g.output(g.op("GatherND", scores, chosen))
    best = g.reduce("ReduceMax", scores, 1, keepdims=0)
    k = g.op("Min", g.unsqueeze(g.size(boxes, 1), 0), g.ints(pick(rng, 2, 5))) if opset >= 12 else g.ints(1)
    top, _ = g.op("TopK", best, k, n=2, axis=1)
    g.output(top)
    g.output(g.op("NonZero", g.op("Greater", best, g.float(0.3))), INT64)

    def call(r):
        n = r.integers(1, 12)
        return {"boxes": random_boxes(r, 1, n), "scores": r.random((1, 2, n)).astype(np.float32)}
    return g, call


def yolo_head(rng, opset):
    """A grid and anchors computed from sizes; boxes decoded, suppressed, and gathered with their classes."""
    g = Graph(rng, opset)
    x = g.input("x", [1, 14, "h", "w"])
    height, width = g.size(x, 2), g.size(x, 3)
    h = g.op("Reshape", x, g.shape_of(1, 2, 7, height, width))
    h = g.op("Sigmoid", g.op("Transpose", h, perm=[0, 1, 3, 4, 2]))
    middle, extent, rest = g.split(h, 4, 2, 2, 3)
    grid = [g.op("Expand", g.op("Reshape", g.cast(g.range(size), FLOAT), g.ints(*shape)), g.shape_of(1, 1, height, width, 1))
            for size, shape in ((width, (1, 1, 1, -1, 1)), (height, (1, 1, -1, 1, 1)))]
    middle = g.op("Sub", g.op("Mul", middle, g.float(2.0)), g.float(0.5))
    middle = g.op("Mul", g.op("Add", middle, g.op("Concat", *grid, axis=-1)), g.float(8.0))
    anchors = g.const([[[[[10.0, 13.0]]], [[[16.0, 30.0]]]]], np.float32)
    extent = g.op("Mul", g.op("Pow", g.op("Mul", extent, g.float(2.0)), g.float(2.0)), anchors)
    half = g.op("Div", extent, g.float(2.0))
    rows = g.op("Concat", g.op("Sub", middle, half), g.op("Add", middle, half), rest, axis=-1)
    rows = g.op("Reshape", rows, g.ints(1, -1, 7))
    g.output(rows)
    boxes, sure, classes = g.split(rows, 2, 4, 1, 2)
    scores = g.op("Transpose", g.op("Mul", sure, classes), perm=[0, 2, 1])
    chosen = g.op("NonMaxSuppression", boxes, scores, g.ints(5), g.const([0.6], np.float32), g.const([0.3], np.float32))
    g.output(chosen, INT64)
    index = g.squeeze(g.slice(chosen, 2, 3, 1), 1) if rng.integers(2) else g.op("Gather", chosen, g.int(2), axis=1)
    g.output(g.op("Gather", g.squeeze(boxes, 0), index, axis=0))
    g.output(g.op("Mul", g.cast(g.op("Gather", chosen, g.int(1), axis=1), FLOAT), g.float(1.0)))
    return g, lambda r: {"x": floats(r, 1, 14, r.integers(1, 5), r.integers(1, 5))}


def regions(rng, opset):
    """Regions of interest assigned to levels by size, pooled, and restored to their order."""
    g = Graph(rng, opset)
    maps = [g.input(name, [1, 2, f"h{name}", f"w{name}"]) for name in ("fine", "coarse")]
    boxes = g.input("boxes", ["n", 4])
    extent = g.op("Sub", g.slice(boxes, 2, 4, 1), g.slice(boxes, 0, 2, 1))
    area = g.op("Mul", *(g.squeeze(g.slice(extent, i, i + 1, 1), 1) for i in range(2)))
    level = g.op("Floor", g.op("Add", g.op("Div", g.op("Log", g.op("Sqrt", area)), g.float(float(np.log(2)))), g.float(0.5)))
    level = g.op("Sub", g.cast(g.op("Clip", level, g.float(1.0), g.float(2.0)), INT64), g.int(1))
    pooled, places = [], []
    for number, (feature, scale) in enumerate(zip(maps, (1.0, 0.5))):
        place = g.squeeze(g.op("NonZero", g.op("Equal", level, g.int(number))), 0)
        own = g.op("Gather", boxes, place, axis=0)
        batch = g.op("ConstantOfShape", g.op("Shape", place), value=helper.make_tensor("v", INT64, [1], [0]))
        more = {"coordinate_transformation_mode": pick(rng, "half_pixel", "output_half_pixel")} if opset >= 16 else {}
        pooled.append(g.op("RoiAlign", feature, own, batch, output_height=2, output_width=2, sampling_ratio=2, spatial_scale=scale,
                           mode="avg", **more))
        places.append(place)
    everything = g.op("Concat", *pooled, axis=0)
    order = g.op("Concat", *places, axis=0)
    spots = g.op("Expand", g.op("Reshape", order, g.ints(-1, 1, 1, 1)), g.op("Shape", everything))
    blank = g.op("ConstantOfShape", g.op("Shape", everything), value=helper.make_tensor("v", FLOAT, [1], [0.0]))
    g.output(g.op("ScatterElements", blank, spots, everything, axis=0))
    g.output(level, INT64)

    def call(r):
        sizes = r.integers(4, 10, 4)
        return {"fine": floats(r, 1, 2, *sizes[:2]), "coarse": floats(r, 1, 2, *sizes[2:]),
                "boxes": random_boxes(r, r.integers(1, 7), span=4.0)}
    return g, call


def proposals(rng, opset):
    """Anchors over a feature map, deltas applied and clipped, small boxes dropped, the rest suppressed."""
    g = Graph(rng, opset)
    scores, deltas = g.input("scores", [1, 2, "h", "w"]), g.input("deltas", [1, 8, "h", "w"])
    height, width = g.size(scores, 2), g.size(scores, 3)
    column, row = g.op("Mul", g.range(width), g.int(4)), g.op("Mul", g.range(height), g.int(4))
    wide = g.op("Expand", g.unsqueeze(column, 0), g.shape_of(height, width))
    tall = g.op("Expand", g.unsqueeze(row, 1), g.shape_of(height, width))
    wide, tall = (g.op("Reshape", v, g.ints(-1)) for v in (wide, tall))
    shifts = g.cast(g.op("Concat", *(g.unsqueeze(v, 1) for v in (wide, tall, wide, tall)), axis=1), FLOAT)
    base = g.const([[[-3, -3, 3, 3], [-2, -4, 2, 4]]], np.float32)
    anchors = g.op("Reshape", g.op("Add", g.unsqueeze(shifts, 1), base), g.ints(-1, 4))
    flat = g.op("Reshape", g.op("Transpose", scores, perm=[0, 2, 3, 1]), g.ints(-1))
    moved = g.op("Transpose", g.op("Reshape", deltas, g.shape_of(1, 2, 4, height, width)), perm=[0, 3, 4, 1, 2])
    moved = g.op("Reshape", moved, g.ints(-1, 4))
    extent = g.op("Sub", g.slice(anchors, 2, 4, 1), g.slice(anchors, 0, 2, 1))
    middle = g.op("Add", g.slice(anchors, 0, 2, 1), g.op("Mul", extent, g.float(0.5)))
    middle = g.op("Add", middle, g.op("Mul", extent, g.slice(moved, 0, 2, 1)))
    extent = g.op("Mul", extent, g.op("Exp", g.op("Clip", g.slice(moved, 2, 4, 1), g.float(-4.0), g.float(1.0))))
    half = g.op("Mul", extent, g.float(0.5))
    boxes = g.op("Concat", g.op("Sub", middle, half), g.op("Add", middle, half), axis=1)
    boxes = g.op("Clip", boxes, g.float(0.0), g.float(16.0))
    sides = g.op("Sub", g.slice(boxes, 2, 4, 1), g.slice(boxes, 0, 2, 1))
    large = g.op("Greater", g.reduce("ReduceMin", sides, 1, keepdims=0), g.float(1.0))
    kept = g.squeeze(g.op("NonZero", large), 0)
    boxes, flat = g.op("Gather", boxes, kept, axis=0), g.op("Gather", flat, kept, axis=0)
    chosen = g.op("NonMaxSuppression", g.unsqueeze(boxes, 0), g.unsqueeze(flat, 0, 1), g.ints(6), g.const([0.7], np.float32))
    chosen = g.squeeze(g.slice(chosen, 2, 3, 1), 1)
    g.output(g.op("Gather", boxes, chosen, axis=0))
    g.output(g.op("Sigmoid", g.op("Gather", flat, chosen, axis=0)))

    def call(r):
        size = r.integers(1, 5, 2)
        return {"scores": floats(r, 1, 2, *size), "deltas": (floats(r, 1, 8, *size) * 0.3)}
    return g, call


FAMILIES = [detector_head, yolo_head, regions, proposals]
