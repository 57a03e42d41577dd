"""The machine's limits, measured in the same run: the copy bandwidth by size, and the peak arithmetic rate."""
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

import engines
from graph import Graph
from isolation import isolated

BUDGET = 0.03  # Seconds per measurement.
SMALLEST = 1 << 14


def fastest(call, budget=BUDGET):
    call()
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


@lru_cache(maxsize=None)
def copy_rate(log_size, threads):
    """Bytes read and written per second by repeated copies that touch 2**log_size bytes in total."""
    n = (1 << log_size) // (2 * threads)
    pairs = [(np.ones(n, np.uint8), np.empty(n, np.uint8)) for _ in range(threads)]
    repeats = max(1, (1 << 21) >> log_size)  # Enough work per call to hide the cost of dispatching to a thread.

    def work(pair):
        for _ in range(repeats):
            np.copyto(pair[1], pair[0])

    if threads == 1:
        return 2 * n * repeats / fastest(lambda: work(pairs[0]))
    with ThreadPoolExecutor(threads) as pool:
        return 2 * n * threads * repeats / fastest(lambda: list(pool.map(work, pairs)))


@lru_cache(maxsize=None)
def peak(threads):
    """Operations per second of the fastest peer on a product of two 1024 x 1024 matrices of f32."""
    n = 1024
    g = Graph("peak")
    g.output(g.MatMul(g.input(f"{n} {n}"), g.input(f"{n} {n}")))
    feeds, model = g.feeds(), g.model("static").SerializeToString()

    def seconds(engine):
        call = engine(model, threads)
        return fastest(lambda: call(feeds), 0.5)

    return 2 * n**3 / min(isolated(seconds, engine) for engine in engines.PEERS.values())


def roofline_ms(size, operations, threads):
    """The minimum time to move this many bytes or to perform this many operations, whichever is longer."""
    log_size = max(SMALLEST, size).bit_length() - 1
    return 1e3 * max(size / copy_rate(log_size, threads), operations / peak(threads))
