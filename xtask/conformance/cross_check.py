"""Runs generated models on onnxruntime and records their outputs.

    cross_check.py FOLDER COUNT

FOLDER has a folder per model, with `model.onnx` and `test_data_set_0/input_M.pb`. For the first COUNT models that
onnxruntime runs, writes `output_M.pb` next to the inputs, and a line to FOLDER/cases.jsonl. Models that it rejects
(kernels larger than operands, dtypes without a kernel) are counted.
"""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

# Relative to the largest element of a result: the error that the order of f32 sums may cause over about ten ops.
TOLERANCE = 2e-5


def read(path):
    with open(path, "rb") as file:
        return numpy_helper.to_array(TensorProto.FromString(file.read()))


def run(folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Runs the model as written, operator by operator.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    data = os.path.join(folder, "test_data_set_0")
    feeds = {info.name: read(os.path.join(data, f"input_{index}.pb"))
             for index, info in enumerate(session.get_inputs())}
    outputs = session.run(None, feeds)
    largest = 1.0
    for index, output in enumerate(outputs):
        with open(os.path.join(data, f"output_{index}.pb"), "wb") as file:
            file.write(numpy_helper.from_array(np.asarray(output)).SerializeToString())
        if output.dtype.kind == "f" and output.size:
            finite = np.abs(output[np.isfinite(output)])
            largest = max(largest, float(finite.max(initial=0.0)))
    return largest


def main(root, count):
    onnxruntime.set_default_logger_severity(4)
    lines, refused = [], 0
    names = [name for name in os.listdir(root) if name.startswith("seed_")]
    for name in sorted(names, key=lambda name: int(name.split("_")[1])):
        if len(lines) == count:
            break
        folder = os.path.join(root, name)
        try:
            largest = run(folder)
        except Exception as error:  # onnxruntime's own exceptions have no common base
            refused += 1
            if os.environ.get("VERBOSE"):
                print(name, str(error)[:200])
            continue
        ops = {node.op_type for node in onnx.load(os.path.join(folder, "model.onnx")).graph.node}
        lines.append({"set": "generated", "name": name, "op": ", ".join(sorted(ops - {"Identity"})), "domain": "ai.onnx",
                      "expanded": False, "rtol": TOLERANCE, "atol": TOLERANCE * largest})
    with open(os.path.join(root, "cases.jsonl"), "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    print(f"{len(lines)} models run on onnxruntime {onnxruntime.__version__}, {refused} refused")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
