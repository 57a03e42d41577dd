"""Measures one configuration on Kiln and its peers, in interleaved rounds."""
import math
import time
from dataclasses import asdict, dataclass

import numpy as np

import machine
from engines import PEERS, Kiln
from isolation import Crashed, isolated

WARM_UP = 0.3
"""Seconds of calls before Kiln is measured, in which it compiles its variants for recurring sizes."""
EARLY = ("--variants-after", "5")
"""By default it compiles variants only after many more calls than are measured."""


@dataclass
class Measurement:
    """Times in milliseconds; None if not measured."""

    family: str
    name: str
    mode: str
    threads: int
    onnxruntime: float | None = None
    openvino: float | None = None
    kiln: float | None = None
    first: float | None = None
    """Kiln's first call, from an empty cache."""
    compile: float | None = None
    """The compile time within the first call, over all threads."""
    roofline: float = 0.0
    error: float | None = None
    """The largest difference from onnxruntime, relative to the largest element."""
    message: str | None = None
    """Why Kiln did not run the model."""

    @property
    def key(self):
        return self.family, self.name, self.mode, self.threads

    @property
    def peer(self):
        return min((t for t in (self.onnxruntime, self.openvino) if t), default=None)

    @property
    def ratio(self):
        """The ratio of Kiln's time to that of the fastest peer."""
        return self.kiln / self.peer if self.kiln and self.peer else None

    @property
    def share(self):
        """The share of the roofline that Kiln reaches."""
        return self.roofline / self.kiln if self.kiln else None

    asdict = asdict


def median_ms(call, seconds):
    call(), call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def error(expected, got):
    """The largest difference relative to the largest element; infinite if shapes or the positions of NaN differ."""
    x, y = np.asarray(expected).astype(np.float64), np.asarray(got).astype(np.float64)
    if x.shape != y.shape or (np.isnan(x) != np.isnan(y)).any():
        return math.inf
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    return float(np.abs(x - y).max(initial=0) / (np.abs(x).max(initial=0) + 1e-30))


def measure(family, graph, mode, threads, command, rounds, seconds):
    """Measures a configuration, leaving out peers that crash on it; None if the mode has no symbols."""
    model = graph.model(mode)
    if model is None:
        return None
    result, crashes = Measurement(family, graph.name, mode, threads), []
    for peers in (PEERS, *[{name: peer} for name, peer in PEERS.items()], {}):
        try:
            result, size = isolated(side_by_side, result, graph, model.SerializeToString(), peers, command, rounds, seconds)
            break
        except Crashed as crash:
            crashes.append(f"{', '.join(peers) or 'the measurement'} {crash}")
    else:
        result.message, size = "; ".join(crashes), 0
    result.roofline = machine.roofline_ms(graph.moved or size, graph.operations(), threads)
    return result


def side_by_side(result, graph, model, peers, command, rounds, seconds):
    """Fills in the times and the error; also returns the bytes of all operands and results."""
    feeds, calls, outputs = graph.feeds(), {}, None
    for name, engine in peers.items():
        try:
            call = engine(model, result.threads)
            answers = call(feeds)
        except Exception:  # A peer may lack an operator or a type; the other one may have it.
            continue
        outputs = answers if outputs is None else outputs
        if [np.shape(answer) for answer in answers] != [np.shape(output) for output in outputs]:
            continue  # Not comparable, since it computes something else.
        calls[name] = lambda c=call: c(feeds)
    results = sum(np.asarray(v).nbytes for v in outputs or [])
    kiln = Kiln(command, model, feeds)
    try:
        measured, got = kiln.bench(result.threads, 0.0)
        result.first, result.compile = measured["first_ms"], measured["compile_ms"]
        if outputs is not None and set(graph.outputs) <= set(got):
            result.error = max((error(x, got[n]) for n, x in zip(graph.outputs, outputs)), default=0.0)
        results = sum(v.nbytes for v in got.values())
        kiln.bench(result.threads, WARM_UP, *EARLY)
        for _ in range(rounds):
            for name, call in calls.items():
                time_ms = median_ms(call, seconds)
                setattr(result, name, min(time_ms, getattr(result, name) or math.inf))
            measured, _ = kiln.bench(result.threads, seconds, *EARLY)
            result.kiln = min(measured["median_ms"], result.kiln or math.inf)
    except Exception as failure:  # Errors and hanging processes are recorded, and the run goes on.
        result.message, result.kiln = str(failure), None
    finally:
        kiln.close()
    return result, sum(v.nbytes for v in feeds.values()) + sum(len(c.raw_data) for c in graph.constants) + results
