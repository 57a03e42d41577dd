"""The PyTorch modules that compiled layers are compared with in the benchmark of the kernel service.

Prints `ready`, then, for each line `NAME CALLS` on standard input, the median time in seconds of that many calls.
"""

import sys
import time

import torch
from torch import nn

MODULES = {
    "dense": (nn.Linear(256, 128), (32, 256)),
    "conv2d": (nn.Conv2d(16, 32, 3, padding=1), (1, 16, 32, 32)),
    "mlp": (nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)), (32, 64)),
}


@torch.inference_mode()
def median(name, calls):
    """The median time of a call in seconds."""
    module, shape = MODULES[name]
    x = torch.full(shape, 0.1)
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        module(x)
        times.append(time.perf_counter() - begin)
    return sorted(times)[calls // 2]


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        name, calls = line.split()
        print(median(name, int(calls)), flush=True)


main()
