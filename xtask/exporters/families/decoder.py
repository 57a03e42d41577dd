"""Decoders: caches that grow or are updated in place, rotary embeddings, and sampling of the next token."""

import numpy as np

from build import BOOL, END, FLOAT, INT64, Graph, floats, pick


def growing_cache(rng, opset):
    """A decoder step that appends to its keys and values."""
    g = Graph(rng, opset)
    x = g.input("x", ["batch", "seq", 8])
    past = [g.input(name, ["batch", 2, "past", 4]) for name in ("past_key", "past_value")]
    batch, seq = g.size(x, 0), g.size(x, 1)

    def heads(value):
        return g.op("Transpose", g.op("Reshape", value, g.shape_of(batch, seq, 2, 4)), perm=[0, 2, 1, 3])

    query, key, value = (heads(g.op("MatMul", x, g.weight(8, 8))) for _ in range(3))
    key, value = (g.op("Concat", old, new, axis=2) for old, new in zip(past, (key, value)))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, g.float(0.5))
    if rng.integers(2):
        # Each new token sees the past and the new ones up to itself.
        total = g.size(key, 2)
        row = g.unsqueeze(g.range(total, start=g.size(past[0], 2)), 1)
        scores = g.op("Where", g.op("Greater", g.unsqueeze(g.range(total), 0), row), g.float(-1e9), scores)
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    g.output(g.op("Add", x, g.op("Reshape", mixed, g.shape_of(batch, seq, 8))))
    g.output(key)
    g.output(value)

    def call(r):
        batch, seq, past = r.integers(1, 3), r.integers(1, 4), r.integers(0, 9)
        return {"x": floats(r, batch, seq, 8), "past_key": floats(r, batch, 2, past, 4),
                "past_value": floats(r, batch, 2, past, 4)}
    return g, call


def rotary_step(rng, opset):
    """Rotary embeddings gathered from tables, and key-value heads shared by several query heads through `expand`."""
    g, groups = Graph(rng, opset), pick(rng, 1, 2)
    x, position = g.input("x", ["batch", "seq", 8]), g.input("position", ["batch", "seq"], INT64)
    past = g.input("past", ["batch", groups, "past", 4])
    batch, seq = g.size(x, 0), g.size(x, 1)
    angles = np.arange(32)[:, None] * np.array([1.0, 0.1, 1.0, 0.1])
    cos, sin = (g.unsqueeze(g.op("Gather", g.const(f(angles), np.float32), position), 1) for f in (np.cos, np.sin))

    def rotated(h):
        a, b = g.slice(h, 0, 2, 3), g.slice(h, 2, END, 3)
        return g.op("Add", g.op("Mul", h, cos), g.op("Mul", g.op("Concat", g.op("Neg", b), a, axis=-1), sin))

    def heads(n):
        h = g.op("Reshape", g.op("MatMul", x, g.weight(8, 4 * n)), g.shape_of(batch, seq, n, 4))
        return g.op("Transpose", h, perm=[0, 2, 1, 3])

    query, key = rotated(heads(2)), g.op("Concat", past, rotated(heads(groups)), axis=2)
    wide = g.op("Expand", g.unsqueeze(key, 2), g.shape_of(batch, groups, 2 // groups, g.size(key, 2), 4))
    wide = g.op("Reshape", wide, g.shape_of(batch, 2, g.size(key, 2), 4))
    scores = g.op("Softmax", g.op("MatMul", query, g.op("Transpose", wide, perm=[0, 1, 3, 2])), axis=-1)
    mixed = g.op("Transpose", g.op("MatMul", scores, wide), perm=[0, 2, 1, 3])
    g.output(g.op("Reshape", mixed, g.shape_of(batch, seq, 8)))
    g.output(key)

    def call(r):
        batch, seq, past = r.integers(1, 3), r.integers(1, 4), r.integers(0, 9)
        position = np.broadcast_to(past + np.arange(seq), (batch, seq))
        return {"x": floats(r, batch, seq, 8), "position": position.copy(), "past": floats(r, batch, groups, past, 4)}
    return g, call


def static_cache(rng, opset):
    """A cache of fixed length that each step updates at a position: `ScatterND`, `ScatterElements` or `Where`."""
    g, way = Graph(rng, opset), int(rng.integers(3))
    cache, at, new = (g.input("cache", ["batch", 6, 4]), g.input("at", [1], INT64), g.input("new", ["batch", 1, 4]))
    batch = g.size(cache, 0)
    if way == 0:
        rows = g.op("Reshape", g.range(batch), g.ints(-1, 1, 1))
        spot = g.op("Expand", g.op("Reshape", at, g.ints(1, 1, 1)), g.shape_of(batch, 1, 1))
        written = g.op("ScatterND", cache, g.op("Concat", rows, spot, axis=-1), new)
    elif way == 1:
        spot = g.op("Expand", g.op("Reshape", at, g.ints(1, 1, 1)), g.shape_of(batch, 1, 4))
        written = g.op("ScatterElements", cache, spot, new, axis=1)
    else:
        here = g.op("Equal", g.const(np.arange(6)[None, :, None], np.int64), at)
        written = g.op("Where", here, new, cache)
    seen = g.op("Slice", written, g.ints(0), g.op("Add", at, g.ints(1)), g.ints(1))
    g.output(written)
    g.output(g.op("MatMul", g.op("Softmax", g.op("MatMul", new, g.op("Transpose", seen, perm=[0, 2, 1])), axis=-1), seen))

    def call(r):
        batch = r.integers(1, 4)
        return {"cache": floats(r, batch, 6, 4), "at": r.integers(0, 6, 1), "new": floats(r, batch, 1, 4)}
    return g, call


def merged_decoder(rng, opset):
    """The first and later steps in one model: an `If` on whether there is a cache."""
    g = Graph(rng, opset)
    x, past, use = (g.input("x", ["batch", "seq", 4]), g.input("past", ["batch", "past", 4]), g.input("use_cache", [1], BOOL))
    weights = g.weight(4, 4)
    branches = []
    for uses in (True, False):
        b = g.inner()
        keys = b.op("MatMul", x, weights)
        keys = b.op("Concat", past, keys, axis=1) if uses else keys
        scores = b.op("Softmax", b.op("MatMul", x, b.op("Transpose", keys, perm=[0, 2, 1])), axis=-1)
        y = b.op("MatMul", scores, keys)
        results = [(y, (FLOAT, ["batch", "seq", 4])), (keys, (FLOAT, ["batch", "all", 4]))]
        branches.append(b.body("with" if uses else "without", [], results))
    y, keys = g.op("If", use, n=2, then_branch=branches[0], else_branch=branches[1])
    g.output(g.op("Add", x, y))
    g.output(keys)

    def call(r):
        batch = r.integers(1, 3)
        return {"x": floats(r, batch, r.integers(1, 5), 4), "past": floats(r, batch, r.integers(0, 6), 4),
                "use_cache": np.array([r.integers(2)], np.bool_)}
    return g, call


def next_token(rng, opset):
    """Logits of the last position, temperature, top-k, top-p, and the greedy choice."""
    g = Graph(rng, opset)
    logits, temperature = g.input("logits", ["batch", "seq", 12]), g.input("temperature", [1])
    last = g.op("Gather", logits, g.int(-1), axis=1)
    g.output(g.op("ArgMax", last, axis=-1, keepdims=pick(rng, 0, 1)), INT64)
    scaled = g.op("Div", last, temperature)
    best, index = g.op("TopK", scaled, g.ints(pick(rng, 3, 12)), n=2, axis=-1, largest=1, sorted=1)
    shares = g.op("Softmax", best, axis=-1)
    cut = g.op("Greater", g.op("CumSum", shares, g.int(-1), exclusive=1), g.float(0.8))
    kept = g.op("Where", cut, g.float(-np.inf), best)
    g.output(g.op("Softmax", kept, axis=-1))
    g.output(g.op("ScatterElements", g.op("Mul", scaled, g.float(0.0)), index, shares, axis=1))
    return g, lambda r: {"logits": floats(r, r.integers(1, 5), r.integers(1, 6), 12),
                         "temperature": np.array([r.random() + 0.5], np.float32)}


def decode_loop(rng, opset):
    """Greedy decoding in the graph: a loop that appends token ids, and ends early at an end token."""
    g = Graph(rng, opset)
    ids = g.input("ids", ["batch", "seq"], INT64)
    table, weights = g.weight(9, 6, scale=1.0), g.weight(6, 9, scale=1.0)
    b = g.inner()
    x = b.reduce("ReduceMean", b.op("Gather", table, "grown"), 1, keepdims=0)
    token = b.op("ArgMax", b.op("MatMul", x, weights), axis=-1, keepdims=1)
    more = b.op("Concat", "grown", token, axis=1)
    ended = b.op("ReduceMin", b.op("Cast", b.op("Equal", token, g.int(3)), to=6), keepdims=0)
    goes_on = b.op("Not", b.op("Cast", ended, to=BOOL))
    body = b.body("body", [("i", (INT64, [])), ("on", (BOOL, [])), ("grown", (INT64, ["batch", "grown_len"]))],
                  [(goes_on, (BOOL, [])), (more, (INT64, ["batch", "more_len"]))])
    g.output(g.op("Loop", g.int(pick(rng, 2, 5)), g.const(True, np.bool_), ids, body=body), INT64)
    return g, lambda r: {"ids": r.integers(0, 9, (r.integers(1, 4), r.integers(1, 6)))}


FAMILIES = [growing_cache, rotary_step, static_cache, merged_decoder, next_token, decode_loop]
