"""Quantises generated models with `kiln quantize`, and runs the results on onnxruntime and on Kiln.

    quantize.py PROGRAM FOLDER KILN COUNT

onnxruntime must accept every quantised model, its results must be close to those of the original model, and Kiln's must
agree with onnxruntime's. Otherwise the exit code is 1; the folder of a failing model is kept.
"""

import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

from build import Graph, floats, pick
from worker import Worker

# The format, its tolerance relative to the largest element, and the tolerance between Kiln and onnxruntime, since
# activations may round differently at a half.
FORMATS = [("int8", 0.05, 0.02), ("int8-weights/32", 0.02, 5e-5), ("int8-weights/64/zero-points", 0.02, 5e-5),
           ("int4-weights/16", 0.3, 5e-5), ("int4-weights/32/zero-points", 0.3, 5e-5),
           ("int4-int8/32", 0.3, 0.02)]
TIME_LIMIT = 120
CALLS = 4


def dense(rng):
    """Products with and without a bias, a gate, and a product of two activations."""
    g, width, hidden = Graph(rng, 17), 48, pick(rng, 40, 64)
    x = g.input("x", ["rows", width])
    y = g.op("Relu", g.op("Gemm", x, g.weight(hidden, width), g.weight(hidden), transB=1))
    y = g.op("Mul", g.op("MatMul", y, g.weight(hidden, hidden)), g.op("Sigmoid", g.op("MatMul", y, g.weight(hidden, hidden))))
    y = g.op("Gemm", y, g.weight(hidden, 20), g.weight(20))
    g.output(y)
    g.output(g.op("Softmax", g.op("MatMul", y, g.op("Transpose", y, perm=[1, 0])), axis=-1))
    return g.model(), [{"x": floats(rng, int(rng.integers(1, 9)), width)} for _ in range(CALLS)]


def pictures(rng):
    """Convolutions, then products."""
    g = Graph(rng, 17)
    x = g.input("x", ["batch", 3, "height", "width"])
    y = g.op("Relu", g.op("Conv", x, g.weight(8, 3, 3, 3), g.weight(8), pads=[1, 1, 1, 1]))
    y = g.op("Flatten", g.op("GlobalAveragePool", g.op("Conv", y, g.weight(32, 8, 1, 1))))
    g.output(g.op("MatMul", y, g.weight(32, 10)))
    return g.model(), [{"x": floats(rng, 2, 3, int(rng.integers(4, 9)), 7)} for _ in range(CALLS)]


def results(path, calls):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [session.run(None, call) for call in calls]


def distance(found, expected):
    """The largest difference relative to the largest element."""
    worst = 0.0
    for ours, theirs in zip(found, expected):
        for a, b in zip(ours, theirs):
            if a.shape != b.shape:
                return np.inf
            worst = max(worst, float(np.abs(a - b).max(initial=0)) / max(float(np.abs(b).max(initial=0)), 1e-6))
    return worst


def check(kiln, worker, folder, calls, expected, form):
    """What is wrong with a format, if anything."""
    name, from_original, from_kiln = form
    path = os.path.join(folder, "quantised", "model.onnx")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    made = subprocess.run([kiln, "quantize", os.path.join(folder, "model.onnx"), "-o", path, "--format", name,
                           "--cases", os.path.join(folder, "cases")], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"kiln quantize: {made.stderr.strip()}"
    onnx.checker.check_model(onnx.load(path), full_check=name == "int8")
    quantised = results(path, calls)
    off = distance(quantised, expected)
    if not 0 < off < from_original:
        return f"{off:.3g} from the original, less than {from_original} is expected"
    shutil.copytree(os.path.join(folder, "cases"), os.path.join(folder, "quantised", "cases"), dirs_exist_ok=True)
    names = [f"{index:03}" for index in range(len(calls))]
    for device in ("interpreter", "cpu"):
        answer = worker.ask({"folder": os.path.dirname(path), "device": device, "cases": names, "prefix": device})
        if answer["refused"] or any(call["verdict"] != "passed" for call in answer["calls"]):
            return f"{device}: {answer}"
        found = [[np.load(os.path.join(folder, "quantised", "cases", name, f"{device}.{index}.npy"))
                  for index in range(len(quantised[0]))] for name in names]
        apart = distance(found, quantised)
        if apart > from_kiln:
            return f"{device}: {apart:.3g} from onnxruntime, at most {from_kiln} is expected"
    return None


def main(program, root, kiln, count):
    onnxruntime.set_default_logger_severity(4)
    worker, wrong, done = Worker(program, TIME_LIMIT), 0, 0
    for seed in range(int(count)):
        rng = np.random.default_rng(seed)
        family = (dense, pictures)[seed % 2]
        model, calls = family(rng)
        folder = os.path.join(root, f"{family.__name__}_{seed}")
        os.makedirs(folder)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        for index, call in enumerate(calls):
            path = os.path.join(folder, "cases", f"{index:03}")
            os.makedirs(path)
            for name, value in call.items():
                np.save(os.path.join(path, f"{name}.npy"), value)
        expected = results(os.path.join(folder, "model.onnx"), calls)
        problems = []
        for form in FORMATS:
            problem = check(kiln, worker, folder, calls, expected, form)
            done += 1
            if problem:
                problems.append(f"{form[0]}: {problem}")
        if problems:
            wrong += len(problems)
            print(f"{folder}:", *problems, sep="\n  ")
            with open(os.path.join(folder, "report.txt"), "w", encoding="utf-8") as file:
                file.write("\n".join(problems) + "\n")
        else:
            shutil.rmtree(folder)
    worker.close()
    print(f"{done - wrong} of {done} quantised models are what onnxruntime and Kiln make of them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
