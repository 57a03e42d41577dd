"""Functions that are traced: their values against NumPy's, and what is traced and refused."""

import threading

import numpy as np
import pytest

import kiln
import kiln.nn
import kiln.numpy as knp

DEVICE = {"device": "interpreter", "cache": False}


def jitted(function, **options):
    return kiln.jit(function, **{**DEVICE, **options})


def draw(*shape, dtype=np.float32, seed=1):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(-5, 6, shape).astype(dtype)


def close(ours, theirs, tolerance=1e-5):
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def agrees(function, *args, tolerance=1e-5):
    """NumPy's functions on traced arrays give what they give on arrays."""
    close(jitted(function)(*args), function(*args), tolerance)


X, Y, V = draw(4, 5), draw(4, 5, seed=2), draw(5, seed=3)
I, J, M = draw(4, 5, dtype=np.int32), draw(4, 5, dtype=np.int32, seed=2), draw(4, 5, dtype=bool)

LINES = {
    "operators": lambda: (lambda x, y: (x + y * 2 - 1) / (y * y + 1.5) - -x, X, Y),
    "reflected operators": lambda: (lambda x: 1 - (2 / (x * x + 1)) + 3 * x, X),
    "powers": lambda: (lambda x: x**2 + abs(x) ** 1.5 + 2**x, X),
    "remainders": lambda: (lambda x, y: np.concatenate([x % 3, x // 2, np.mod(x, y), np.fmod(x, y)]), I, np.where(J == 0, 1, J)),
    "remainders of floats": lambda: (lambda x: np.stack([x % 0.7, x // 0.7, np.fmod(x, 0.7)]), X),
    "integers divided": lambda: (lambda x: x / 4, I),
    "comparisons": lambda: (lambda x, y: (x < y) & (x > -1) | (x == y) ^ ~(x >= 0) | (x != y) & (x <= 1), X, Y),
    "bits": lambda: (lambda x, y: (x & y) | (x ^ 3) | (~x << 2) >> 1, I, J),
    "broadcasting": lambda: (lambda x, v: x * v + v[:3, None, None] * x, X, V),
    "functions of floats": lambda: (
        lambda x: np.exp(x) + np.sin(x) * np.tanh(x) + np.sqrt(abs(x)) + np.log1p(x * x) + np.arctan2(x, x + 1) + np.cbrt(x),
        X,
    ),
    "functions of integers": lambda: (lambda x: np.exp(x) + np.sqrt(abs(x)), I),
    "rounding": lambda: (lambda x: np.floor(x) + np.ceil(x) + np.round(x) + np.trunc(x) + np.round(x * 3, 2) + np.sign(x), X),
    "where": lambda: (lambda x, m: np.where(m, x, -1) + np.where(x > 0, 1.5, x), X, M),
    "select": lambda: (lambda x: np.select([x < -1, x < 1], [x * 2, x * 3], 0), X),
    "clip": lambda: (lambda x: np.clip(x, -0.5, 0.5) + x.clip(0, None), X),
    "logic": lambda: (lambda m, x: np.logical_and(m, x > 0) | np.logical_not(m), M, X),
    "tests": lambda: (lambda x: np.isnan(x / 0 * 0) | np.isinf(x / 0) | np.isfinite(x), X + 10),
    "hypot and logaddexp": lambda: (lambda x, y: np.hypot(x, y) + np.logaddexp(x, y), X, Y),
    "maximum": lambda: (lambda x, y: np.maximum(x, y) - np.minimum(x, 0) + np.fmax(x, y), X, Y),
    "astype": lambda: (lambda x: x.astype(np.int32) + x.astype(bool), X),
    "sums": lambda: (lambda x: x.sum(axis=0) + np.sum(x) + x.sum(axis=(0, 1), keepdims=True)[0], X),
    "sums of integers": lambda: (lambda x: x.sum(axis=0), I),
    "sums of truth values": lambda: (lambda m: m.sum(), M),
    "means": lambda: (lambda x: x.mean(axis=-1) + x.var(axis=1) + x.std(axis=1, ddof=1), X),
    "means of integers": lambda: (lambda x: x.mean(axis=0), I),
    "extremes": lambda: (lambda x: x.max(axis=0) - x.min(axis=0) + np.ptp(x, axis=0), X),
    "products": lambda: (lambda x: x.prod(axis=1), X),
    "any and all": lambda: (lambda m: m.any(axis=0) ^ m.all(axis=0), M),
    "positions of extremes": lambda: (lambda x: x.argmax(axis=1) + np.argmin(x, axis=1) + x.argmax(), X),
    "running sums": lambda: (lambda x: np.cumsum(x, axis=1) + np.cumprod(x, axis=0) + np.cumsum(x).reshape(x.shape), X),
    "norms": lambda: (lambda x: np.linalg.norm(x, axis=1) + np.linalg.norm(x), X),
    "count": lambda: (lambda x: np.count_nonzero(x, axis=0), I),
    "median": lambda: (lambda x: np.median(x, axis=1), X),
    "rows and columns": lambda: (lambda x: x[1] + x[-1] + x[0, :] + x[:, 2][0], X),
    "slices": lambda: (lambda x: x[1:3, ::2] + x[-3:-1, :3] + x[2:0:-1, 1:4], X),
    "reversed": lambda: (lambda x: x[::-1, ::-2], X),
    "beyond the end": lambda: (lambda x: x[2:100, -100:2], X),
    "new axes": lambda: (lambda x: x[:, None, :, None] * x[None, ..., 1:2, None], X),
    "indices": lambda: (lambda x: x[[0, 2, -1]] + x[np.array([[1, 0, 3]]), :][0], X),
    "two arrays of indices": lambda: (lambda x: x[[0, 1, 2], [4, -1, 0]], X),
    "arrays of indices apart": lambda: (lambda x: x[:, None][[0, 1], :, [4, 0]], X),
    "array and integer apart": lambda: (lambda x: x[None][0, :, [1, 2, 3]], X),
    "indices by a grid": lambda: (lambda x: x[np.array([[0], [3]]), np.array([1, 2, 4])], X),
    "take": lambda: (lambda x: np.take(x, [1, 0], axis=1) + np.take(x, 3), X),
    "take along an axis": lambda: (lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), X),
    "reshapes": lambda: (lambda x: x.reshape(2, -1).T.ravel().reshape(x.shape), X),
    "transposes": lambda: (lambda x: np.transpose(x) @ np.swapaxes(x, 0, 1).T, X),
    "axes moved": lambda: (lambda x: np.moveaxis(x[None], [0, 2], [1, 0]), X),
    "concatenation": lambda: (lambda x, y: np.concatenate([x, y], axis=1), X, Y),
    "stacks": lambda: (lambda x, y: np.stack([x, y], axis=1) + np.vstack([x, y]).reshape(4, 2, 5) + np.hstack([x, y])[:, :5, None][:, :2] * 0, X, Y),
    "splits": lambda: (lambda x: np.split(x, 2)[1] * np.split(x, [1, 3])[1], X),
    "repeats": lambda: (lambda x: np.repeat(x, 3, axis=1) + np.tile(x, (1, 3)), X),
    "flips and rolls": lambda: (lambda x: np.flip(x, 1) + np.roll(x, 2, axis=0) + np.roll(x, -7), X),
    "padding": lambda: (lambda x: np.pad(x, ((1, 2), (0, 3))) + np.pad(x, [(1, 2), (0, 3)], mode="edge"), X),
    "reflections": lambda: (lambda x: np.pad(x, 2, mode="reflect") + np.pad(x, 2, mode="wrap"), X),
    "differences": lambda: (lambda x: np.diff(x, axis=1, n=2), X),
    "triangles": lambda: (lambda x: np.tril(x) + np.triu(x, 1) * 2, X),
    "diagonals": lambda: (lambda x: np.diagonal(x, 1) * np.trace(x), X),
    "filled arrays": lambda: (lambda x: np.zeros_like(x) + np.ones_like(x) * 2 + np.full_like(x, 3), X),
    "matrices": lambda: (lambda x, y: x @ y.T + np.dot(x, y.T) + np.inner(x, y), X, Y),
    "vectors": lambda: (lambda x, v: x @ v + np.dot(x[0], v) + np.outer(v, v)[:4, 0], X, V),
    "batches of matrices": lambda: (lambda x, y: np.matmul(x[None], y.T[None])[0], X, Y),
    "tensordot": lambda: (lambda x, y: np.tensordot(x, y, axes=([1], [1])), X, Y),
    "einsum": lambda: (lambda x, y: np.einsum("ij,kj->ik", x, y) + np.einsum("ij,kl->ik", x, y), X, Y),
    "einsum of three": lambda: (lambda x, y, v: np.einsum("ij,kj,j->ki", x, y, v), X, Y, V),
    "einsum of a diagonal": lambda: (lambda x: np.einsum("ii->i", x @ x.T) + np.einsum("ij->i", x), X),
    "einsum of more axes": lambda: (lambda x, y: np.einsum("...i,...i->...", x[None], y), X, Y),
    "einsum of numbers": lambda: (lambda x, y: np.einsum(x, [0, 1], y, [2, 1], [2, 0]) + np.einsum(y, [0, 1], x, [2, 1]), X, Y),
    "einsum with an order": lambda: (lambda x, y, v: np.einsum("iJ,kJ,J", x, y, v, optimize=True), X, Y, V),
    "order": lambda: (lambda x: np.sort(x, axis=1) + np.sort(x, axis=0), X),
    "meshgrid": lambda: (lambda v: np.meshgrid(v, v[:3])[0] * np.meshgrid(v, v[:3])[1], V),
    "constants": lambda: (lambda x: x + np.arange(5, dtype=np.float32) * np.float32(2), X),
    "nan_to_num": lambda: (lambda x: np.nan_to_num(x / 0 * 0) + np.nan_to_num(x * 1e30 * 1e30) * 0, X),
}


@pytest.mark.parametrize("line", LINES)
def test_numpys_lines_give_numpys_values(line):
    with np.errstate(all="ignore"):
        agrees(*LINES[line](), tolerance=1e-4)


def test_sizes_are_neither_traced_nor_compiled_again():
    traced = []

    @kiln.jit(cache=False)
    def layer(x, w, b):
        traced.append(1)
        return np.maximum(x @ w + b, 0)

    for rows, inner, columns in [(1, 1, 1), (3, 4, 5), (0, 4, 5), (17, 31, 16), (2, 1, 33)]:
        x, w, b = draw(rows, inner), draw(inner, columns, seed=2), draw(columns, seed=3)
        close(layer(x, w, b), np.maximum(x @ w + b, 0))
    assert traced == [1] and layer.n_traces == 1
    layer(*(array.astype(np.float64) for array in (x, w, b)))
    assert layer.n_traces == 2, "another dtype"
    layer(x, w, b[None])
    assert layer.n_traces == 3, "another number of axes"


@pytest.mark.parametrize("rows", [1, 2, 7, 16])
def test_sizes_are_numbers_to_compute_with(rows):
    def centred(x):
        n, columns = x.shape
        half = x[: n // 2 + 1, columns - 1 :]
        return (x - x.sum(axis=0) / n) * (n - 1) + half.sum() * columns

    f = jitted(centred)
    x = draw(rows, 3)
    close(f(x), centred(x), 1e-4)
    # And as positions.
    positions = jitted(lambda x: x + knp.arange(x.shape[0])[:, None])
    close(positions(x), x + np.arange(rows)[:, None])


def test_mistakes_in_einsum_name_the_term():
    for equation, term in [("ij,j->i", '"j"'), ("ij,kj->iz", '"iz"'), ("i1,kj", '"i1"'), ("ij,ik->", "`i`")]:
        with pytest.raises(ValueError, match=term):
            jitted(lambda x, y, equation=equation: np.einsum(equation, x[:3], y[:2]), dims={"x": [4, 5], "y": [4, 5]})(X, Y)


def test_numbers_keep_the_dtype_of_the_array():
    half = draw(3, dtype=np.float16)
    assert jitted(lambda x: x * 2.5 + 1)(half).dtype == np.float16
    assert jitted(lambda x: x * 2)(draw(3, dtype=np.uint8)).dtype == np.uint8
    assert jitted(lambda x: x * np.float64(2))(half).dtype == np.float64
    for function in [lambda x: x * 0.5, lambda x: x < 2.5, lambda x: x + 300]:
        with pytest.raises(TypeError):
            jitted(function)(np.zeros(3, np.int8))
    with pytest.raises(kiln.TracingError) as caught:
        jitted(lambda x: x * 0.5)(np.zeros(3, np.int32))
    assert caught.value.code == "E0804"


def test_numbers_may_be_arguments():
    f = jitted(lambda x, k: x * k)
    x = draw(3)
    close(f(x, 2.5), x * np.float32(2.5))
    close(f(x, 0.5), x * np.float32(0.5))
    assert f.n_traces == 1
    close(f(x, 2), x * 2)
    with pytest.raises(kiln.TracingError):
        f(np.zeros(3, np.int32), 0.5)


def test_arguments_and_results_are_nested():
    def update(params, batch):
        grads = {"w": params["w"] * 2, "b": (params["b"][0] + batch[0],)}
        return grads, [batch[1], None, 3, "name"]

    f = jitted(update)
    params = {"w": draw(2, 3), "b": (draw(3),)}
    grads, rest = f(params, (draw(3), draw(1)))
    close(grads["w"], params["w"] * 2)
    assert isinstance(grads["b"], tuple) and grads["b"][0].shape == (3,)
    close(rest[0], draw(1))
    assert rest[1:] == [None, 3, "name"]
    assert f.n_traces == 1


def test_static_arguments_are_passed_on():
    @kiln.jit(static_argnames="mode", **DEVICE)
    def f(x, mode="double", n=1):
        return x * 2 if mode == "double" else x + n

    x = draw(3)
    close(f(x), x * 2)
    close(f(x, mode="add", n=4), x + 4)
    close(f(x, "add", 5), x + 5)
    assert f.n_traces == 3
    g = kiln.jit(lambda x, times: sum([x] * times), static_argnums=1, **DEVICE)
    close(g(x, 3), x * 3)
    with pytest.raises(kiln.InvalidInputError, match="static_argnames"):
        jitted(lambda x, mode: x)(x, "double")


def test_axes_can_be_named_and_fixed():
    f = jitted(lambda x, y: x + y[:, 0], dims={"x": ["n"], "y": ["n", 2]})
    close(f(draw(3), draw(3, 2)), draw(3) + draw(3, 2)[:, 0])
    assert f.model(draw(3), draw(3, 2)).inputs[1] == ("y", "float32", ("n", 2))
    assert 'add' in f.model(draw(3), draw(3, 2)).text()
    with pytest.raises(kiln.InvalidInputError):
        f(draw(3), draw(4, 2))
    with pytest.raises(kiln.InvalidInputError):
        f(draw(3), draw(3, 3))
    with pytest.raises(kiln.InvalidInputError, match="dims"):
        jitted(lambda x: x, dims={"x": ["n", "m"]})(draw(3))
    with pytest.raises(ValueError, match="parameter"):
        jitted(lambda x: x, dims={"z": ["n"]})
    nested = jitted(lambda p: p["a"] + p["b"], dims={"p": {"a": ["n"], "b": ["n"]}})
    close(nested({"a": draw(3), "b": draw(3)}), 2 * draw(3))


def test_mistakes_are_raised_on_their_line():
    def wrong(x, y):
        z = x * 2
        return z @ y

    with pytest.raises(kiln.InvalidInputError) as caught:
        jitted(wrong, dims={"x": [2, 3], "y": [4, 5]})(draw(2, 3), draw(4, 5))
    line = caught.traceback
    assert any(entry.name == "wrong" for entry in line)
    assert caught.value.code == "E0331"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x if x.shape[0] > 3 else -x,
        lambda x: [row for row in x][0],
        lambda x: x[: int(x[0, 0])],
        lambda x: np.asarray(x),
        lambda x: float(x[0, 0]),
        lambda x: list(range(x.shape[0]))[0] + x,
        lambda x: x[x.argmax() :],
    ],
)
def test_control_flow_by_values_is_refused_with_advice(function):
    with pytest.raises(kiln.TracingError) as caught:
        jitted(function)(draw(4, 5))
    assert caught.value.code == "E0993"


def test_what_is_known_of_sizes_can_be_branched_on():
    def f(x):
        assert x.shape[0] >= 0 and x.shape[0] + 1 > x.shape[0]
        return x if x.shape[1] == 5 else -x

    close(jitted(f, dims={"x": [None, 5]})(X), X)


def test_traced_arrays_are_not_written_to_but_updated():
    def write(x):
        x[0] = 1
        return x

    with pytest.raises(kiln.TracingError, match="at"):
        jitted(write)(X)
    with pytest.raises(kiln.TracingError, match="out"):
        jitted(lambda x: np.exp(x, out=x))(X)

    def expected(change):
        array = X.copy()
        change(array)
        return array

    def rows(array):
        array[1:3, ::2] = 7

    close(jitted(lambda x: x.at[1:3, ::2].set(7))(X), expected(rows))

    def some(array):
        np.add.at(array, ([0, 0, 2],), V)

    close(jitted(lambda x: x.at[[0, 0, 2]].add(V))(X), expected(some))

    def one(array):
        array[-1, 2] *= 3

    close(jitted(lambda x: x.at[-1, 2].multiply(3))(X), expected(one))


def test_functions_that_arrays_lack_are_named():
    with pytest.raises(kiln.UnsupportedError, match="numpy.unique"):
        jitted(lambda x: np.unique(x))(X)
    with pytest.raises(kiln.UnsupportedError, match="numpy.heaviside"):
        jitted(lambda x: np.heaviside(x, 0))(X)
    with pytest.raises(kiln.UnsupportedError, match="where"):
        jitted(lambda x: x[x > 0])(X)
    with pytest.raises(kiln.TracingError, match="jit"):
        knp.arange(3)


def test_arrays_of_other_calls_are_refused():
    kept = []

    @kiln.jit(**DEVICE)
    def keep(x):
        kept.append(x)
        return x + 1

    keep(X)
    with pytest.raises(kiln.TracingError):
        jitted(lambda x: x + kept[0])(X)
    with pytest.raises(kiln.TracingError):
        kept[0] + 1


def test_compiled_functions_call_each_other():
    double = jitted(lambda x: x * 2)
    f = jitted(lambda x: double(x) + double(x[0]))
    close(f(X), X * 2 + X[0] * 2)
    assert double.n_traces == 0


def test_networks_functions():
    def f(x, w):
        hidden = kiln.nn.relu(kiln.nn.conv(x, w, padding=1))
        return kiln.nn.softmax(kiln.nn.max_pool(hidden, 2).reshape(x.shape[0], -1))

    x, w = draw(2, 3, 4, 4), draw(5, 3, 3, 3, seed=2)
    y = jitted(f)(x, w)
    np.testing.assert_allclose(y.sum(axis=1), [1, 1], rtol=1e-5)
    z = jitted(lambda x: kiln.nn.gelu(x) + kiln.nn.silu(x) + kiln.nn.sigmoid(x) + kiln.nn.apply("elu", x, alpha=0.5))(X)
    assert z.shape == X.shape


def loss(params, x, y):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return ((hidden.sum(axis=1) - y) ** 2).mean()


def numeric(function, array, step=1e-4):
    slope = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        low, high = array.copy(), array.copy()
        low[index] -= step
        high[index] += step
        slope[index] = (function(high) - function(low)) / (2 * step)
    return slope


def test_gradients_are_the_slopes():
    params = {"w": draw(3, 4, dtype=np.float64), "b": draw(4, dtype=np.float64)}
    x, y = draw(5, 3, dtype=np.float64), draw(5, dtype=np.float64, seed=2)
    value, slopes = kiln.value_and_grad(kiln.jit(loss, **DEVICE))(params, x, y)
    np.testing.assert_allclose(value, loss(params, x, y))
    np.testing.assert_allclose(slopes["w"], numeric(lambda w: loss({**params, "w": w}, x, y), params["w"]), rtol=1e-5)
    np.testing.assert_allclose(slopes["b"], numeric(lambda b: loss({**params, "b": b}, x, y), params["b"]), rtol=1e-5)
    both = kiln.grad(kiln.jit(loss, **DEVICE), argnums=(1, 2))
    slope_x, slope_y = both(params, x, y)
    np.testing.assert_allclose(slope_x, numeric(lambda x: loss(params, x, y), x), rtol=1e-5)
    np.testing.assert_allclose(slope_y, numeric(lambda y: loss(params, x, y), y), rtol=1e-5)
    both(params, x[:2], y[:2])
    assert both.n_traces == 1


def test_gradients_of_gradients():
    slope = kiln.grad(jitted(lambda x: (x**3).sum()))
    curve = kiln.grad(jitted(lambda x: slope(x).sum()))
    x = np.array([1.0, 2.0, -3.0])
    close(slope(x), 3 * x**2)
    close(curve(x), 6 * x)


def test_a_step_of_training_is_one_function():
    @kiln.jit(**DEVICE)
    def step(params, x, y):
        value, slopes = kiln.value_and_grad(loss)(params, x, y)
        return value, {name: params[name] - 0.1 * slopes[name] for name in params}

    params = {"w": draw(3, 4), "b": draw(4)}
    x, y = draw(16, 3), draw(16, seed=2)
    losses = []
    for _ in range(20):
        value, params = step(params, x, y)
        losses.append(float(value))
    assert losses[-1] < losses[0] * 0.5
    assert step.n_traces == 1


def test_gradients_with_further_results_and_constants():
    def f(x, k):
        return (x * k * kiln.stop_gradient(x)).sum(), {"twice": x * 2}

    (value, aux), slope = kiln.value_and_grad(jitted(f), has_aux=True)(X, 3.0)
    close(aux["twice"], X * 2)
    close(slope, 3 * X)
    np.testing.assert_allclose(value, (3 * X * X).sum(), rtol=1e-5)
    slope, aux = kiln.grad(jitted(f), has_aux=True)(X, 3.0)
    close(aux["twice"], X * 2)
    with pytest.raises(kiln.Error) as caught:
        kiln.grad(jitted(lambda x: x * 2))(X)
    assert caught.value.code == "E0603"
    with pytest.raises(kiln.Error) as caught:
        kiln.grad(jitted(lambda x: x.sum()))(I)
    assert caught.value.code == "E0602"


def test_threads_share_a_function():
    f = kiln.jit(lambda x, y: x * 2 + y, cache=False)
    wrong = []

    def work(number):
        x = np.full((number % 5 + 1, number % 3 + 1), number, np.float32)
        for _ in range(10):
            if not (f(x, x) == 3 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.n_traces == 1


def test_inputs_and_results_are_not_copied():
    f = kiln.jit(lambda x: x + 1, cache=False)
    x = np.zeros(1 << 16, np.float32)
    y = f(x)
    assert y.base is not None and not y.flags.writeable
    assert (y == 1).all() and not x.any()


def test_methods_are_compiled():
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        @kiln.jit(static_argnames="self", **DEVICE)
        def call(self, x):
            return x * self.scale

    close(Layer(3).call(X), X * 3)


def test_loops_run_as_often_as_the_values_say():
    @kiln.jit(**DEVICE)
    def powers(x, n):
        scale = x + 1  # From outside of the loop.
        return kiln.fori_loop(0, n, lambda i, y: y * 2 + i.astype(x.dtype) * scale, x)

    def expected(x, n):
        y = x
        for i in range(n):
            y = y * 2 + i * (x + 1)
        return y

    for n in (0, 1, 5):
        close(powers(X, n), expected(X, n), 1e-4)
    assert powers.n_traces == 1

    @kiln.jit(**DEVICE)
    def halvings(x, least):
        return kiln.while_loop(lambda state: state[0].max() > least, lambda state: (state[0] / 2, state[1] + 1), (x, 0))

    x, n = halvings(np.float32([100, 3]), 1.5)
    close(x, np.float32([100, 3]) / 128)
    assert n == 7


def test_a_scan_stacks_and_is_differentiated():
    def running(x, decay):
        def step(state, row):
            state = state * decay + row
            return state, state * 2

        return kiln.scan(step, np.zeros(5, np.float32) + 0 * x[0], x)

    last, rows = jitted(running)(X, 0.5)
    state, expected = np.zeros(5, np.float32), []
    for row in X:
        state = state * np.float32(0.5) + row
        expected.append(state * 2)
    close(rows, np.stack(expected))
    close(last, state)
    slope = kiln.grad(jitted(lambda x: running(x, 0.5)[0].sum()))(X)
    close(slope, np.broadcast_to(np.float32(0.5) ** np.arange(3, -1, -1, dtype=np.float32)[:, None], (4, 5)))


def test_branches_are_taken_by_value():
    outside = np.float32(3)

    @kiln.jit(**DEVICE)
    def f(x):
        y = x * 2
        return kiln.cond(x.sum() > 0, lambda z: y + z, lambda z: -z * outside, x)

    close(f(np.abs(X)), np.abs(X) * 3)
    close(f(-np.abs(X)), np.abs(X) * 3)
    assert f.n_traces == 1


def test_values_do_not_leave_a_loop():
    kept = []

    def body(i, x):
        kept.append(x)
        return x + 1

    with pytest.raises(kiln.TracingError):
        jitted(lambda x: kiln.fori_loop(0, 3, body, x) + kept[0])(X)
