"""Write case folders for random recurrent layers, for side_by_side.py. Usage: make_recurrent.py OUT [NAME...]

Writes OUT/<model>/model.onnx, OUT/<model>/cases/<case>/<input>.npy and OUT/<model>/expect/<case>/<output>.npy, like
make_cases.py: LSTM, GRU and RNN layers, a cell written as a Scan, a running sum written as a Loop. Expected outputs
come from onnxruntime without graph optimisation.
"""
import os, sys, tempfile
import numpy as np, onnx
from onnx import TensorProto, helper as h, numpy_helper
from make_cases import write

rng = np.random.default_rng(3)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def noise(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def weights(name, *shape):
    return numpy_helper.from_array(noise(*shape) / np.float32(np.sqrt(shape[-1])), name)


def info(name, shape, dtype=TensorProto.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants):
    graph = h.make_graph(nodes, "g", inputs, outputs, constants)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def layer(kind, hidden, features, directions=1):
    """A layer that maps x[T, N, features] to all states and the last ones."""
    g = GATES[kind]
    names = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    direction = "bidirectional" if directions == 2 else "forward"
    node = h.make_node(kind, ["X", "W", "R", "B"], names, hidden_size=hidden, direction=direction, **extra)
    constants = [weights("W", directions, g * hidden, features), weights("R", directions, g * hidden, hidden), weights("B", directions, 2 * g * hidden)]
    states = [info(n, [directions, "N", hidden]) for n in names[1:]]
    return model([node], [info("X", ["T", "N", features])], [info("Y", ["T", directions, "N", hidden]), *states], constants)


def scan(hidden, features):
    """An RNN cell as the body of a Scan, which includes the product with the input weights."""
    body = h.make_graph(
        [h.make_node("MatMul", ["x", "W"], ["p"]), h.make_node("MatMul", ["state", "R"], ["q"]), h.make_node("Add", ["p", "q"], ["s"]),
         h.make_node("Add", ["s", "b"], ["t"]), h.make_node("Tanh", ["t"], ["next"]), h.make_node("Identity", ["next"], ["y"])],
        "cell", [info("state", ["N", hidden]), info("x", ["N", features])], [info("next", ["N", hidden]), info("y", ["N", hidden])])
    node = h.make_node("Scan", ["H", "X"], ["last", "Y"], num_scan_inputs=1, body=body)
    return model([node], [info("H", ["N", hidden]), info("X", ["T", "N", features])],
                 [info("last", ["N", hidden]), info("Y", ["T", "N", hidden])],
                 [weights("W", features, hidden), weights("R", hidden, hidden), weights("b", hidden)])


def running_sum(width):
    """The cumulative sum over rows, as a Loop."""
    body = h.make_graph(
        [h.make_node("Gather", ["X", "i"], ["x"], axis=0), h.make_node("Add", ["sum", "x"], ["next"]),
         h.make_node("Identity", ["next"], ["y"]), h.make_node("Identity", ["go"], ["on"])],
        "add", [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("sum", [width])],
        [info("on", [], TensorProto.BOOL), info("next", [width]), info("y", [width])])
    nodes = [h.make_node("Shape", ["X"], ["shape"]), h.make_node("Gather", ["shape", "zero"], ["rows"], axis=0),
             h.make_node("Loop", ["rows", "true", "start"], ["last", "all"], body=body)]
    constants = [numpy_helper.from_array(v, n) for n, v in
                 (("zero", np.array(0, np.int64)), ("true", np.array(True)), ("start", np.zeros(width, np.float32)))]
    return model(nodes, [info("X", ["T", width])], [info("last", [width]), info("all", ["T", width])], constants)


MODELS = {
    "lstm-256": lambda: (layer("LSTM", 256, 256), [{"X": noise(50, 1, 256)}]),
    "lstm-128x2": lambda: (layer("LSTM", 128, 128, directions=2), [{"X": noise(100, 1, 128)}]),
    "gru-256": lambda: (layer("GRU", 256, 256), [{"X": noise(50, 1, 256)}]),
    "rnn-256": lambda: (layer("RNN", 256, 256), [{"X": noise(50, 1, 256)}]),
    "scan-128": lambda: (scan(128, 128), [{"H": noise(1, 128), "X": noise(100, 1, 128)}]),
    "loop-sum": lambda: (running_sum(64), [{"X": noise(200, 64)}]),
}


def main(out, *names):
    for name in names or MODELS:
        made, cases = MODELS[name]()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(made, path)
            write(out, name, path, cases)


if __name__ == "__main__":
    main(*sys.argv[1:])
