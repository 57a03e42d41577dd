"""Kiln and its peers: each loads a model and is called with the same inputs."""
import json
import os
import shutil
import subprocess
import tempfile

import numpy as np
import onnxruntime
import openvino

def onnxruntime_call(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def openvino_call(model, threads):
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    return lambda feeds: list(compiled(feeds).values())


PEERS = {"onnxruntime": onnxruntime_call, "openvino": openvino_call}


class Kiln:
    """The `kiln` command, on one model in its own folder, starting from an empty cache."""

    def __init__(self, command, model, feeds):
        self.command = command
        self.folder = tempfile.mkdtemp(prefix="kiln-ops-")
        with open(self.path("model.onnx"), "wb") as file:
            file.write(model)
        os.makedirs(self.path("cases", "case"))
        for name, value in feeds.items():
            np.save(self.path("cases", "case", name + ".npy"), value)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def bench(self, threads, seconds, *options):
        """The measurements of `kiln bench`, and the outputs of its last call; a RuntimeError if it fails."""
        out = self.path("out")
        command = [self.command, "bench", self.path("model.onnx"), "--cases", self.path("cases"), "--out", out, "--json",
                   "--min-time", str(seconds), "--threads", str(threads), "--cache", self.path("cache"), *options]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        if ended.returncode or not lines:
            raise RuntimeError((ended.stderr.strip().splitlines() or ["no message"])[0])
        folder = os.path.join(out, "case")
        return lines[0], {os.path.splitext(file)[0]: np.load(os.path.join(folder, file)) for file in os.listdir(folder)}
    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
