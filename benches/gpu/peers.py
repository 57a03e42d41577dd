"""What the GPU does through PyTorch, and a model to run: `peers.py floors`, `peers.py sentences MODEL FOLDER`."""

import json
import pathlib
import sys


def floors():
    """Rates of copies and products, the median of several rounds, timed by events."""
    import torch

    def time(run, count):
        for _ in range(3):
            run()
        rounds = []
        for _ in range(5):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(count):
                run()
            last.record()
            torch.cuda.synchronize()
            rounds.append(first.elapsed_time(last) / count / 1e3)
        return sorted(rounds)[2]

    x = torch.rand(1 << 28, device="cuda")
    y = torch.empty_like(x)
    seconds = time(lambda: y.copy_(x), 20)
    print(json.dumps({"name": "torch copy, 1 GiB", "gb_per_s": round(2 * x.numel() * 4 / seconds / 1e9)}))
    rows = torch.rand(65536, 1024, device="cuda")
    seconds = time(lambda: torch.softmax(rows, 1), 20)
    print(json.dumps({"name": "torch softmax f32, 65536 x 1024", "us": round(seconds * 1e6, 1)}))
    for name, dtype, size, tf32 in [
        ("bf16", torch.bfloat16, 8192, False),
        ("bf16", torch.bfloat16, 2048, False),
        ("f32 tf32", torch.float32, 4096, True),
        ("f32", torch.float32, 2048, False),
    ]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        seconds = time(lambda: a @ b, 10)
        rate = round(2 * size**3 / seconds / 1e12, 1)
        print(json.dumps({"name": f"torch {name}, {size}^3", "tflop_per_s": rate}))


def sentences(model, folder):
    """A sentence encoder with random weights, and calls of it: small ones to compare, larger ones to time."""
    import shutil

    import numpy

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, folder / "model.onnx")
    random = numpy.random.default_rng(7)
    # Its weights are views of one file.
    weights = random.normal(0, 0.05, 90_868_376 // 4).astype(numpy.float32)
    weights.tofile(folder / "model.safetensors")
    for kind, sizes in [("small", [(1, 1), (1, 8), (2, 17)]), ("large", [(1, 8), (1, 128), (8, 128), (32, 128)])]:
        for batch, length in sizes:
            case = folder / kind / f"{batch}x{length}"
            case.mkdir(parents=True, exist_ok=True)
            ids = random.integers(100, 1000, (batch, length))
            numpy.save(case / "ids.npy", ids.astype(numpy.int64))
            numpy.save(case / "mask.npy", numpy.ones((batch, length), numpy.int64))


if __name__ == "__main__":
    if sys.argv[1] == "floors":
        floors()
    else:
        sentences(*sys.argv[2:4])
