"""What this machine can do, measured in the same run: how fast it copies, by size, and how fast it multiplies."""
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
    """Bytes read and written per second when 2**log_size bytes in all are copied again and again."""
    n = (1 << log_size) // (2 * threads)
    pairs = [(np.ones(n, np.uint8), np.empty(n, np.uint8)) for _ in range(threads)]
    repeats = max(1, (1 << 21) >> log_size)  # Enough work per call to hide the hand-over to a thread.

    def work(pair):
        for _ in range(repeats):
            np.copyto(pair[1], pair[0])

    if threads == 1:
        return 2 * n * repeats / fastest(lambda: work(pairs[0]))
    with ThreadPoolExecutor(threads) as pool:
        return 2 * n * threads * repeats / fastest(lambda: list(pool.map(work, pairs)))


@lru_cache(maxsize=None)
def peak(threads):
    """Operations per second of the fastest product of two matrices of 1024 x 1024 f32 that a peer computes."""
    n = 1024
    g = Graph("peak")
    g.output(g.MatMul(g.input(f"{n} {n}"), g.input(f"{n} {n}")))
    feeds, model = g.feeds(), g.model("static").SerializeToString()

    def seconds(engine):
        call = engine(model, threads)
        return fastest(lambda: call(feeds), 0.5)

    return 2 * n**3 / min(isolated(seconds, engine) for engine in engines.PEERS.values())


def roofline_ms(size, operations, threads):
    """The least time for moving so many bytes, or for so many operations, whichever is longer."""
    log_size = max(SMALLEST, size).bit_length() - 1
    return 1e3 * max(size / copy_rate(log_size, threads), operations / peak(threads))
