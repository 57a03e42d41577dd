"""Models over arrays: values, errors, memory, threads."""

import array
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import kiln

SCALE = """graph @scale(%x: f32[B, N], %w: f32[N]) -> (f32[B, N], f32[B]) {
  %y: f32[B, N] = mul %x, %w
  %s: f32[B] = reduce %y {function = sum, axes = [1]}
  return %y, %s
}"""

DEVICES = ["cpu", "interpreter"]


def double(dtype: str, device: str = "cpu") -> kiln.Model:
    text = f"graph @double(%x: {dtype}[N]) -> {dtype}[N] {{ %y = add %x, %x return %y }}"
    return kiln.load(text, device=device, cache=False)


@pytest.fixture(params=DEVICES)
def scale(request) -> kiln.Model:
    return kiln.load(SCALE, device=request.param, cache=False)


@pytest.mark.parametrize("rows", [0, 1, 2, 17])
@pytest.mark.parametrize("columns", [0, 1, 15, 16, 17, 31])
def test_one_model_serves_every_size(scale, rows, columns):
    generator = np.random.default_rng(7)
    x = generator.standard_normal((rows, columns), dtype=np.float32)
    w = generator.standard_normal(columns, dtype=np.float32)
    y, s = scale(x, w)
    np.testing.assert_allclose(y, x * w, rtol=1e-6)
    np.testing.assert_allclose(s, (x * w).sum(axis=1), rtol=1e-4, atol=1e-4)
    named = scale.run({"w": w, "x": x})
    assert list(named) == [value.name for value in scale.outputs]
    np.testing.assert_array_equal(next(iter(named.values())), y)
    np.testing.assert_array_equal(scale(x, w=w)[0], y)


def test_inputs_and_outputs_are_described(scale):
    assert scale.inputs == [("x", "float32", ("B", "N")), ("w", "float32", ("N",))]
    assert [value.shape for value in scale.outputs] == [("B", "N"), ("B",)]
    assert scale.device.split(":")[0] in DEVICES


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("f64", np.float64),
        ("f32", np.float32),
        ("f16", np.float16),
        ("i64", np.int64),
        ("i32", np.int32),
        ("i16", np.int16),
        ("i8", np.int8),
        ("u64", np.uint64),
        ("u32", np.uint32),
        ("u16", np.uint16),
        ("u8", np.uint8),
    ],
)
def test_every_dtype_goes_in_and_out(ours, theirs):
    x = np.arange(5).astype(theirs)
    y = double(ours)(x)
    assert y.dtype == theirs
    np.testing.assert_array_equal(y, x + x)


def test_truth_values_go_in_and_out():
    text = "graph @not(%x: bool[N]) -> bool[N] { %y = not %x return %y }"
    x = np.array([True, False, True])
    y = kiln.load(text, device="interpreter", cache=False)(x)
    assert y.dtype == np.bool_
    np.testing.assert_array_equal(y, ~x)


def test_strided_and_reversed_arrays_are_read_as_they_are():
    x = np.arange(24, dtype=np.float32)
    model = double("f32")
    for view in [x[::2], x[::-1], x[20:3:-3], x[3:3], np.broadcast_to(x[:1], 5)]:
        np.testing.assert_array_equal(model(view), view + view)
    matrix = x.reshape(4, 6)
    scale = kiln.load(SCALE, cache=False)
    for view in [matrix.T, matrix[::-1, 1:], matrix[:, ::-2]]:
        w = np.ones(view.shape[1], np.float32)
        np.testing.assert_array_equal(scale(view, w)[0], view)


def test_other_arrays_than_numpys_are_accepted():
    model = double("f32")
    values = array.array("f", [1.0, 2.0])
    np.testing.assert_array_equal(model(values), [2.0, 4.0])
    np.testing.assert_array_equal(model(memoryview(values)), [2.0, 4.0])
    np.testing.assert_array_equal(double("f64")([1.0, 2.0]), [2.0, 4.0])
    np.testing.assert_array_equal(model(kiln.tensor(values)), [2.0, 4.0])


class OnlyDlpack:
    """An array that has nothing but DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_dlpack_goes_both_ways_without_a_copy():
    x = np.arange(6, dtype=np.float32)
    tensor = kiln.tensor(OnlyDlpack(x))
    view = np.asarray(tensor)
    assert view.ctypes.data == x.ctypes.data
    assert not view.flags.writeable
    result = kiln.load(SCALE, device="interpreter", cache=False)._native._call((x.reshape(2, 3), x[:3]), {})
    first = next(iter(result.values()))
    assert np.from_dlpack(first).ctypes.data == np.asarray(first).ctypes.data
    assert first.shape == (2, 3) and first.dtype == "float32" and len(first) == 2
    assert "Tensor(" in repr(first)


def test_inputs_and_outputs_are_not_copied():
    x = np.arange(1 << 20, dtype=np.float32)
    assert np.asarray(kiln.tensor(x)).ctypes.data == x.ctypes.data
    y = double("f32")(x)
    assert y.base is not None, "the array is over Kiln's memory"
    assert not y.flags.writeable, "which Kiln may share"


def test_lent_memory_is_given_back():
    class Array(np.ndarray):
        pass

    x = np.arange(8, dtype=np.float32).view(Array)
    gone = weakref.ref(x)
    model = double("f32")
    model(x)
    tensor = kiln.tensor(x)
    del x
    gc.collect()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None


def test_errors_have_codes_and_kinds():
    model = double("f32")
    with pytest.raises(kiln.InvalidInputError) as caught:
        model(np.zeros((2, 2), np.float32))
    assert caught.value.code.startswith("E") and caught.value.kind == "invalid input"
    assert caught.value.code in str(caught.value)
    with pytest.raises(ValueError, match="x"):
        model.run({"y": np.zeros(2, np.float32)})
    with pytest.raises(kiln.Error):
        model(np.zeros(2, np.float64))
    with pytest.raises(OSError, match="nowhere"):
        kiln.load("nowhere.onnx")
    with pytest.raises(kiln.InvalidInputError, match="policy"):
        kiln.load(SCALE, policy="never")
    with pytest.raises(kiln.InvalidInputError, match="abacus"):
        kiln.load(SCALE, device="abacus")
    with pytest.raises(kiln.InvalidInputError, match="numbers"):
        model(np.array(["a", "b"]))
    with pytest.raises(kiln.InvalidInputError, match="byte order"):
        model(np.zeros(2, ">f4"))
    with pytest.raises(kiln.InvalidInputError, match="whole elements"):
        bytes_ = np.zeros(12, np.uint8)
        model(np.lib.stride_tricks.as_strided(bytes_[:8].view(np.float32), (2,), (6,)))


def test_errors_survive_pickling():
    import pickle

    for kind in [kiln.Error, kiln.InvalidInputError, kiln.MachineError, kiln.ResourceError]:
        error = pickle.loads(pickle.dumps(kind("message", "E0101", "kind")))
        assert (str(error), error.code, error.kind) == ("E0101 message", "E0101", "kind")


def test_sizes_can_be_fixed_and_bounded():
    model = kiln.load(SCALE, dims={"B": 2, "N": (1, 8)}, cache=False)
    assert model.inputs[0].shape == (2, "N")
    model(np.zeros((2, 8), np.float32), np.zeros(8, np.float32))
    with pytest.raises(kiln.InvalidInputError):
        model(np.zeros((2, 9), np.float32), np.zeros(9, np.float32))
    kiln.load(SCALE, dims={"N": "16..64%16~32"}, cache=False)


def test_gradients_are_further_outputs():
    text = """graph @loss(%x: f32[N], %w: f32[N]) -> f32[] {
      %p = mul %x, %w
      %e = square %p
      %loss = reduce %e {function = sum, axes = [0]}
      return "loss" = %loss
    }"""
    model = kiln.load(text, gradients=("loss", ["w"]), cache=False)
    outputs = model.run({"x": np.array([1, 3], np.float32), "w": np.array([2, 1], np.float32)})
    assert outputs["loss"] == 13.0
    np.testing.assert_array_equal(outputs["d_w"], [4.0, 18.0])


def test_precision_is_chosen_by_product():
    text = """graph @two(%x: f32[N, 64], %w: f32[64, 32], %v: f32[32, 16]) -> (f32[N, 32], f32[N, 16]) {
      %a = matmul %x, %w from "body"
      %b = matmul %a, %v from "head"
      return "a" = %a, "b" = %b
    }"""
    rng = np.random.default_rng(3)
    inputs = {"x": rng.random((3, 64), np.float32), "w": rng.random((64, 32), np.float32), "v": rng.random((32, 16), np.float32)}
    exact = kiln.load(text, cache=False).run(inputs)
    for precision in ["bf16", {"*": "bf16", "he*": "f32"}, {"body": "bf16"}]:
        narrow = kiln.load(text, precision=precision, cache=False).run(inputs)
        assert not np.array_equal(narrow["a"], exact["a"])
        np.testing.assert_allclose(narrow["a"], exact["a"], rtol=0.02)
        if precision != "bf16":
            np.testing.assert_allclose(narrow["b"], narrow["a"] @ inputs["v"], rtol=1e-5)
    with pytest.raises(kiln.InvalidInputError, match="int3"):
        kiln.load(text, precision="int3")


def test_a_memory_budget_changes_no_result():
    lines = ["graph @deep(%x: f32[N, 256], %w: f32[256, 256]) -> f32[] {", "%h0 = add %x, %x"]
    lines += [f"%z{n} = matmul %h{n - 1}, %w\n%h{n} = tanh %z{n}" for n in range(1, 7)]
    lines += ["%loss = reduce %h6 {function = sum, axes = [0, 1]}", 'return "loss" = %loss', "}"]
    text = "\n".join(lines)
    inputs = {"x": np.full((64, 256), 0.01, np.float32), "w": np.full((256, 256), 0.02, np.float32)}
    expected = kiln.load(text, gradients="loss", cache=False).run(inputs)
    for budget in ["50%", 1 << 18, "256KiB"]:
        found = kiln.load(text, gradients="loss", memory_budget=budget, cache=False).run(inputs)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    with pytest.raises(kiln.InvalidInputError, match="120%"):
        kiln.load(text, memory_budget="120%")


def test_a_session_keeps_its_states():
    text = """graph @append(%cache: f32[C, 2], %at: i64[1], %row: f32[1, 2]) -> (f32[C, 2], f32[2]) {
      %next = update_slice %cache, %at, %row {axes = [0]}
      %sum = reduce %next {function = sum, axes = [0]}
      return %next, %sum
    }"""
    model = kiln.load(text, cache=False)
    first = np.zeros((4, 2), np.float32)
    session = model.session({"cache": ("next", first)})
    for at in range(3):
        total = session(at=np.array([at]), row=np.full((1, 2), 1.5, np.float32))
    np.testing.assert_array_equal(total, [4.5, 4.5])
    np.testing.assert_array_equal(session.state("cache")[:, 0], [1.5, 1.5, 1.5, 0])
    assert not first.any(), "the first value was copied"
    session.set_state("cache", np.ones((4, 2), np.float32))
    assert session.state("cache").all()
    with pytest.raises(kiln.InvalidInputError):
        session.state("row")


def test_a_bundle_runs(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    model = double("f32")
    path = tmp_path / "double.kiln-bundle"
    assert model.save_bundle(path, key) == path.stat().st_size
    opened = kiln.open_bundle(path, key, cache=False)
    np.testing.assert_array_equal(opened(np.ones(3, np.float32)), [2, 2, 2])
    with pytest.raises(kiln.Error):
        key.write_bytes(bytes(32))
        kiln.open_bundle(path, key)


def test_a_hundred_threads_share_a_model():
    model = kiln.load(SCALE, cache=False)
    wrong = []

    def work(number):
        x = np.full((number % 7 + 1, number % 13 + 1), number, np.float32)
        w = np.full(x.shape[1], 2, np.float32)
        for _ in range(20):
            y, _ = model(x, w)
            if not (y == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_child(model, queue):
    x = np.arange(8, dtype=np.float32)
    queue.put(model(x).tolist() if model is not None else double("f32")(x).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_call_models(method):
    context = multiprocessing.get_context(method)
    model = double("f32")
    model(np.zeros(4, np.float32))
    queue = context.Queue()
    # A model cannot be sent to a process that is not a copy of this one.
    child = context.Process(target=in_child, args=(model if method == "fork" else None, queue))
    child.start()
    assert queue.get(timeout=120) == [0, 2, 4, 6, 8, 10, 12, 14]
    child.join(60)
    assert child.exitcode == 0


def test_the_interpreter_is_free_during_a_call():
    text = "graph @f(%x: f32[N, N]) -> f32[N, N] { %y = matmul %x, %x return %y }"
    model = kiln.load(text, device="interpreter", cache=False)
    x = np.ones((1200, 1200), np.float32)
    ticks = 0
    thread = threading.Thread(target=model, args=(x,))
    thread.start()
    while thread.is_alive():
        ticks += 1
        time.sleep(0.001)
    assert ticks > 5


def test_a_time_limit_ends_a_call():
    text = "graph @f(%x: f32[N, N]) -> f32[N, N] { %y = matmul %x, %x return %y }"
    model = kiln.load(text, device="interpreter", cache=False)
    with pytest.raises(kiln.LimitError):
        model.run([np.ones((2000, 2000), np.float32)], time_limit=0.05)
    with pytest.raises(TypeError):
        model.run([np.ones((2, 2), np.float32)], time_limit=-1)


INTERRUPTED = """
import kiln, numpy as np
model = kiln.load("graph @f(%x: f32[N, N]) -> f32[N, N] { %y = matmul %x, %x return %y }", device="interpreter", cache=False)
x = np.ones((4000, 4000), np.float32)
print("calling", flush=True)
try:
    model(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(model(np.ones((2, 2), np.float32))[0, 0])
"""


def test_ctrl_c_ends_a_call():
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "calling\n"
    time.sleep(0.5)
    begin = time.monotonic()
    os.kill(child.pid, signal.SIGINT)
    printed, _ = child.communicate(timeout=60)
    assert printed.splitlines() == ["interrupted", "2.0"]
    assert time.monotonic() - begin < 10


def test_a_report_shows_a_call(tmp_path):
    text = """graph @two(%x: f32[B, 8], %w: f32[8, 4], %v: f32[4, 4]) -> f32[B, 4] {
        %a = matmul %x, %w from "first <b>"
        %b = matmul %a, %v from "second"
        return %b
    }"""
    model = kiln.load(text, device="cpu", cache=False)
    inputs = [np.ones((6, 8), np.float32), np.ones((8, 4), np.float32), np.ones((4, 4), np.float32)]
    report = model.report(inputs, calls=2)
    assert [step["nodes"] for step in report.steps] == [["first <b>"], ["second"]]
    assert report.near_misses.startswith("one kernel if a fact were known: none")
    assert repr(report).startswith("Report(two: 2 steps, ")
    assert "<b>" not in report._repr_html_() and "srcdoc=" in report._repr_html_()
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    interpreted = kiln.load(text, device="interpreter", cache=False)
    with pytest.raises(kiln.UnsupportedError):
        interpreted.report(inputs)
