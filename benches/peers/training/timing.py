"""The timing of all peers, and their batches; the same as in Kiln's example `training_steps`."""

import os
import time

import numpy as np

SIZES = {"mlp": 128, "cnn": 64, "transformer": 8, "lstm": 8}


def values(shape, seed):
    index = np.arange(int(np.prod(shape)), dtype=np.int64)
    numbers = ((index * 7919 + seed * 104729) % 2003).astype(np.float32) / np.float32(1001.5) - 1
    return numbers.reshape(shape)


def batch(name, size):
    """The inputs of a case for a batch size."""
    if name == "mlp":
        return values((size, 784), 1), np.arange(size) * 7 % 10
    if name == "cnn":
        return values((size, 1, 28, 28), 1), np.arange(size) * 7 % 10
    if name == "transformer":
        return values((size, 128, 256), 1), values((size, 128, 256), 2)
    return values((50, size, 128), 1), values((50, size, 128), 2)


def measure(name, step, first):
    """Times `step()` and prints the line that `side_by_side.py` reads; `first` is the time of the first call in ms."""
    end = time.perf_counter() + 1.5
    while time.perf_counter() < end:
        step()
    times = []
    end = time.perf_counter() + 2.0
    while len(times) < 20 or time.perf_counter() < end:
        begin = time.perf_counter()
        loss = step()
        times.append((time.perf_counter() - begin) * 1e3)
    times.sort()
    print(f"{name} median {times[len(times) // 2]:.3f} least {times[0]:.3f} first {first:.1f} loss {loss:.4f}", flush=True)


def threads():
    return len(os.sched_getaffinity(0))
