"""Training steps in JAX: `python steps_jax.py CASE`."""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from timing import SIZES, batch, measure

RNG = np.random.default_rng(0)


def normal(*shape, fan):
    return jnp.asarray(RNG.normal(0, (2 / fan) ** 0.5, shape), jnp.float32)


def zeros(*shape):
    return jnp.zeros(shape, jnp.float32)


def linear(x, layer):
    return x @ layer["weight"].T + layer["bias"]


def layer_of(inputs, outputs):
    return {"weight": normal(outputs, inputs, fan=inputs), "bias": zeros(outputs)}


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


def mlp(p, x, labels):
    h = jax.nn.relu(linear(x, p["fc1"]))
    h = jax.nn.relu(linear(h, p["fc2"]))
    return cross_entropy(linear(h, p["fc3"]), labels)


def conv(x, layer):
    y = lax.conv_general_dilated(x, layer["weight"], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return y + layer["bias"][:, None, None]


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def cnn(p, x, labels):
    h = pool(jax.nn.relu(conv(x, p["conv1"])))
    h = pool(jax.nn.relu(conv(h, p["conv2"])))
    return cross_entropy(linear(h.reshape(h.shape[0], -1), p["out"]), labels)


def norm(x, layer):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * layer["weight"] + layer["bias"]


def transformer(p, x, y):
    b, t, width = x.shape
    heads = 4
    h = linear(norm(x, p["norm1"]), p["in_proj"]).reshape(b, t, 3, heads, width // heads)
    q, k, v = jnp.moveaxis(h, 2, 0).swapaxes(2, 3)
    scores = q @ k.swapaxes(-1, -2) * (width // heads) ** -0.5
    mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, width)
    x = x + linear(mixed, p["out_proj"])
    h = jax.nn.relu(linear(norm(x, p["norm2"]), p["linear1"]))
    return ((x + linear(h, p["linear2"]) - y) ** 2).mean()


def lstm(p, x, y):
    projected = x @ p["ih"].T + (p["bias_ih"] + p["bias_hh"])

    def step(state, row):
        h, c = state
        i, f, g, o = jnp.split(row + h @ p["hh"].T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], 128), jnp.float32)
    _, outputs = lax.scan(step, (zero, zero), projected)
    return ((outputs - y) ** 2).mean()


def unit(width):
    return {"weight": jnp.ones(width), "bias": zeros(width)}


CASES = {
    "mlp": (mlp, lambda: {"fc1": layer_of(784, 512), "fc2": layer_of(512, 512), "fc3": layer_of(512, 10)}),
    "cnn": (
        cnn,
        lambda: {
            "conv1": {"weight": normal(16, 1, 3, 3, fan=9), "bias": zeros(16)},
            "conv2": {"weight": normal(32, 16, 3, 3, fan=144), "bias": zeros(32)},
            "out": layer_of(32 * 7 * 7, 10),
        },
    ),
    "transformer": (
        transformer,
        lambda: {
            "norm1": unit(256), "norm2": unit(256), "in_proj": layer_of(256, 768), "out_proj": layer_of(256, 256),
            "linear1": layer_of(256, 1024), "linear2": layer_of(1024, 256),
        },
    ),
    "lstm": (
        lstm,
        lambda: {
            "ih": normal(512, 128, fan=384), "hh": normal(512, 128, fan=384),
            "bias_ih": zeros(512), "bias_hh": zeros(512),
        },
    ),
}


def main():
    name = sys.argv[1]
    loss, parameters = CASES[name]
    p = parameters()
    m, v = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)

    def sgd(p, m, v, count, *batch):
        value, slope = jax.value_and_grad(loss)(p, *batch)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, p, slope), m, v, count

    def adam(p, m, v, count, *batch):
        value, slope = jax.value_and_grad(loss)(p, *batch)
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, slope)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, slope)
        a, b = 1 - 0.9**count, 1 - 0.999**count
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8), p, m, v)
        return value, p, m, v, count

    update = jax.jit(sgd if name == "mlp" else adam, donate_argnums=(0, 1, 2, 3))
    state = [p, m, v, jnp.float32(0)]
    given = batch(name, SIZES[name])

    def step(given=given):
        value, *state[:] = update(*state, *given)
        jax.block_until_ready(state)
        return float(value)

    begin = time.perf_counter()
    step()
    measure(name, step, (time.perf_counter() - begin) * 1e3)
    begin = time.perf_counter()
    step(batch(name, SIZES[name] + 1))
    print(f"{name} another {(time.perf_counter() - begin) * 1e3:.1f}")


main()
