"""Language models as their exporters write them: fused `com.microsoft` operators over caches, low-bit weights."""

import numpy as np

from build import FLOAT, INT32, INT64, Graph, floats, pick

DOMAIN = "com.microsoft"
CAPACITY = 12


def lengths(g, mask):
    """The lengths minus one, and the longest length, from a token mask."""
    count = g.op("Sub", g.reduce("ReduceSum", mask, 1, keepdims=0), g.int(1))
    return g.cast(count, INT32), g.cast(g.size(mask, 1), INT32)


def tables(g, half, rows=2 * CAPACITY):
    """The cosine and sine tables of rotary embeddings."""
    angles = np.arange(rows)[:, None] * 10.0 ** -np.arange(half)[None, :]
    return g.const(np.cos(angles), np.float32), g.const(np.sin(angles), np.float32)


def seen(g, value, mask, kept, axis):
    """A result with its padding zeroed, where a sample has no token. `kept` is the number of positions."""
    real = g.op("Sub", g.reduce("ReduceSum", mask, 1, keepdims=1), g.int(0))
    inside = g.op("Less", g.unsqueeze(g.range(kept), 0), real)
    for _ in range(axis - 1):
        inside = g.unsqueeze(inside, 1)
    return g.op("Where", g.unsqueeze(inside, axis + 1), value, g.float(0.0))


def options(rng, size):
    """Attributes of grouped-query attention found in models."""
    chosen = {}
    for name, value in [("local_window_size", pick(rng, 1, 3, 5)), ("softcap", 2.0), ("scale", 0.3), ("smooth_softmax", 1)]:
        if rng.integers(4) == 0:
            chosen[name] = value
    return chosen


def group_query(rng, opset, in_place):
    """Grouped-query attention over a cache: prompts padded at the end, and steps with samples of different lengths."""
    g = Graph(rng, max(opset, 13))
    groups, shared, size = pick(rng, 1, 2, 4), pick(rng, 1, 2), 32
    heads = groups * shared
    sizes = [heads * size, shared * size, shared * size]
    x = g.input("x", ["batch", "seq", 8])
    past_size = CAPACITY if in_place else "past"
    past = [g.input(name, ["batch", shared, past_size, size]) for name in ("past_key", "past_value")]
    mask = g.input("mask", ["batch", "total"], INT64)
    last, total = lengths(g, mask)
    parts = [g.op("MatMul", x, g.weight(8, n)) for n in sizes]
    if rng.integers(2):
        parts = [g.op("Concat", *parts, axis=2), "", ""]
    operands = [*parts, *past, last, total]
    attributes = options(rng, size)
    if rng.integers(3):
        half = pick(rng, 8, 16)
        operands += tables(g, half)
        attributes |= {"do_rotary": 1, "rotary_interleaved": pick(rng, 0, 1)}
    else:
        operands += ["", ""]
    operands.append("")
    if rng.integers(3) == 0 and "smooth_softmax" not in attributes:
        bias = g.op("Mul", g.cast(g.op("Sub", g.unsqueeze(g.range(g.size(mask, 1)), 0), g.unsqueeze(g.range(g.size(x, 1)), 1)),
                                  FLOAT), g.float(0.1))
        operands.append(g.unsqueeze(bias, 0, 1))
    y, key, value = g.op("GroupQueryAttention", *operands, n=3, domain=DOMAIN, num_heads=heads, kv_num_heads=shared, **attributes)
    # The padding after a prompt's tokens is not compared.
    tokens = g.input("tokens", ["batch", "seq"], INT64)
    g.output(seen(g, y, tokens, g.size(x, 1), 1))
    for cache in (key, value):
        g.output(seen(g, cache, mask, g.size(cache, 2), 2))

    def call(r):
        batch, is_prompt = r.integers(1, 4), r.integers(2)
        seq = r.integers(1, 6) if is_prompt else 1
        own = r.integers(1, seq + 1, batch) if is_prompt else r.integers(1, CAPACITY + 1, batch)
        total = seq if is_prompt else int(own.max())
        own[r.integers(batch)] = total
        before = 0 if is_prompt else total - 1
        kept = CAPACITY if in_place else before
        tokens = np.minimum(own, seq)[:, None] if is_prompt else np.ones((batch, 1), int)
        return {"x": floats(r, batch, seq, 8), "past_key": floats(r, batch, shared, kept, size),
                "past_value": floats(r, batch, shared, kept, size),
                "mask": (np.arange(total)[None, :] < own[:, None]).astype(np.int64),
                "tokens": (np.arange(seq)[None, :] < tokens).astype(np.int64)}
    return g, call


def group_query_growing(rng, opset):
    """A cache that grows with each step."""
    return group_query(rng, opset, in_place=False)


def group_query_in_place(rng, opset):
    """A cache of fixed capacity, shared by past and present."""
    return group_query(rng, opset, in_place=True)


def block_of_bits(rng, opset):
    """A norm of a residual sum, a gated feed-forward layer with low-bit weights, and the sum for the next block."""
    g = Graph(rng, opset)
    bits, block = pick(rng, 4, 8), pick(rng, 16, 32)
    width, hidden = 32, pick(rng, 24, 40)
    x, skip = g.input("x", ["batch", "seq", width]), g.input("skip", ["batch", "seq", width])
    normal, _, _, total = g.op("SkipSimplifiedLayerNormalization", x, skip, g.weight(width), n=4, domain=DOMAIN, epsilon=1e-5)
    g.nodes[-1].output[1] = g.nodes[-1].output[2] = ""

    def product(value, depth, columns):
        blocks = -(-depth // block)
        codes = g.const(rng.integers(0, 256, (columns, blocks, block * bits // 8)), np.uint8)
        operands = [value, codes, g.const(rng.random((columns, blocks)) * 0.02, np.float32)]
        if rng.integers(2):
            operands.append(g.const(rng.integers(0, 256, (columns, -(-blocks * bits // 8))), np.uint8))
        return g.op("MatMulNBits", *operands, domain=DOMAIN, K=depth, N=columns, bits=bits, block_size=block)

    gate, up = product(normal, width, hidden), product(normal, width, hidden)
    gate = g.op(pick(rng, "QuickGelu", "FastGelu", "Gelu"), gate, domain=DOMAIN)
    y = product(g.op("Mul", gate, up), hidden, width)
    out = g.op("SimplifiedLayerNormalization", g.op("Add", total, y), g.weight(width), axis=-1, epsilon=1e-5)
    for value in (out, total):
        g.output(value)
    return g, lambda r: {name: floats(r, batch, seq, width) for batch, seq in [(r.integers(1, 3), r.integers(1, 6))]
                         for name in ("x", "skip")}


def quantised_embedding(rng, opset):
    """An embedding lookup in a table of codes with a scale per block."""
    g = Graph(rng, opset)
    bits, block, width, rows = pick(rng, 4, 8), pick(rng, 16, 32), 64, 10
    ids = g.input("ids", ["batch", "seq"], INT64)
    operands = [g.const(rng.integers(0, 256, (rows, width * bits // 8)), np.uint8), ids,
                g.const(rng.random((rows, width // block)), np.float32)]
    if rng.integers(2):
        operands.append(g.const(rng.integers(0, 256, (rows, max(1, width // block * bits // 8))), np.uint8))
    g.output(g.op("GatherBlockQuantized", *operands, domain=DOMAIN, bits=bits, block_size=block, gather_axis=0, quantize_axis=1))
    return g, lambda r: {"ids": r.integers(0, rows, (r.integers(1, 4), r.integers(1, 5)))}


def multi_head(rng, opset):
    """Multi-head attention with biases and a cache, or with a key mask or a bias on the scores."""
    g = Graph(rng, opset)
    heads, size = pick(rng, 1, 2), 4
    hidden, attributes = heads * size, {"num_heads": heads}
    if rng.integers(2):
        attributes["unidirectional"] = 1
    has_past, has_mask = rng.integers(2), rng.integers(2)
    parts = [g.input(name, ["batch", "seq", hidden]) for name in ("q", "k", "v")]
    parts.append(g.weight(3 * hidden) if rng.integers(2) else "")
    parts.append("" if has_past or not has_mask else g.input("mask", ["batch", "seq"], INT32))
    parts.append(g.input("term", [1, heads, "seq", "seq"]) if not has_past and not has_mask else "")
    if has_past:
        parts += [g.input(name, ["batch", heads, "past", size]) for name in ("past_key", "past_value")]
    for result in g.op("MultiHeadAttention", *parts, n=3, domain=DOMAIN, **attributes):
        g.output(result)

    def call(r):
        batch, seq, past = r.integers(1, 3), r.integers(1, 4), r.integers(0, 5)
        inputs = {name: floats(r, batch, seq, hidden) for name in ("q", "k", "v")}
        if has_past:
            inputs |= {name: floats(r, batch, heads, past, size) for name in ("past_key", "past_value")}
        elif has_mask:
            inputs["mask"] = (np.arange(seq)[None, :] <= r.integers(0, seq, (batch, 1))).astype(np.int32)
        else:
            inputs["term"] = floats(r, 1, heads, seq, seq)
        return inputs
    return g, call


def rotated(rng, opset):
    """Rotary embedding as a separate operator, and a norm of a sum with a bias."""
    g = Graph(rng, opset)
    heads, size = 2, 8
    x, position = g.input("x", ["batch", "seq", heads * size]), g.input("position", ["batch", "seq"], INT64)
    y = g.op("RotaryEmbedding", x, position, *tables(g, size // 2), domain=DOMAIN, interleaved=pick(rng, 0, 1))
    n = heads * size
    y = g.op("SkipLayerNormalization", y, x, g.weight(n), g.weight(n), g.weight(n), domain=DOMAIN, epsilon=1e-5)
    g.output(g.op("BiasGelu", y, g.weight(n), domain=DOMAIN))

    def call(r):
        batch, seq = r.integers(1, 3), r.integers(1, 5)
        return {"x": floats(r, batch, seq, n), "position": r.integers(0, CAPACITY, (batch, seq))}
    return g, call


FAMILIES = [group_query_growing, group_query_in_place, block_of_bits, quantised_embedding, multi_head, rotated]
