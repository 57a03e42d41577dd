"""The other side of numpy.rs: `shape M K N` makes operands, `time CALLS` multiplies them and answers nanoseconds."""
import sys, time
import numpy as np


def ripple(*shape):
    return ((np.arange(np.prod(shape)) * 37 % 101) / 101 - 0.5).astype(np.float32).reshape(shape)


blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
print(f"numpy {np.__version__} with {blas.get('name', 'its own loops')} {blas.get('version', '')}".strip(), flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    if word == "shape":
        m, k, n = numbers
        x, y, z = ripple(m, k), ripple(k, n), np.empty((m, n), np.float32)
        print("made", flush=True)
    else:
        start = time.perf_counter_ns()
        for _ in range(numbers[0]):
            np.matmul(x, y, out=z)
        print(time.perf_counter_ns() - start, flush=True)
