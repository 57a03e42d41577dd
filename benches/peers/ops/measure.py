"""One configuration, on Kiln and its peers, who take turns."""
import math
import time
from dataclasses import asdict, dataclass

import numpy as np

import machine
from engines import PEERS, Kiln


@dataclass
class Measurement:
    """Times in milliseconds; what was not measured is None."""

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
    """Of which compilers ran, over all threads."""
    roofline: float = 0.0
    error: float | None = None
    """The largest difference from onnxruntime, over the largest element."""
    message: str | None = None
    """Why Kiln did not run it."""

    @property
    def key(self):
        return self.family, self.name, self.mode, self.threads

    @property
    def peer(self):
        return min((t for t in (self.onnxruntime, self.openvino) if t), default=None)

    @property
    def ratio(self):
        """To the fastest peer."""
        return self.kiln / self.peer if self.kiln and self.peer else None

    @property
    def share(self):
        """Of the roofline."""
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
    """The largest difference over the largest element; infinite where shapes, or the places of NaN, differ."""
    x, y = np.asarray(expected).astype(np.float64), np.asarray(got).astype(np.float64)
    if x.shape != y.shape or (np.isnan(x) != np.isnan(y)).any():
        return math.inf
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    return float(np.abs(x - y).max(initial=0) / (np.abs(x).max(initial=0) + 1e-30))


def measure(family, graph, mode, threads, command, rounds, seconds):
    """Measures a configuration; None if the mode has no symbols."""
    model = graph.model(mode)
    if model is None:
        return None
    model = model.SerializeToString()
    feeds = {name: value for name, (_, _, value) in graph.inputs.items()}
    result = Measurement(family, graph.name, mode, threads)
    peers, outputs = {}, None
    for name, engine in PEERS.items():
        try:
            call = engine(model, threads)
            answers = call(feeds)
        except Exception:  # A peer may lack an operator or a type; there is the other one.
            continue
        outputs = answers if outputs is None else outputs
        peers[name] = lambda c=call: c(feeds)
    kiln = Kiln(command, model, feeds)
    try:
        for at in range(rounds):
            for name, call in peers.items():
                time_ms = median_ms(call, seconds)
                setattr(result, name, min(time_ms, getattr(result, name) or math.inf))
            measured, got = kiln.bench(threads, seconds)
            result.kiln = min(measured["median_ms"], result.kiln or math.inf)
            if at == 0:
                result.first, result.compile = measured["first_ms"], measured["compile_ms"]
                names = graph.outputs
                if outputs is not None and set(names) <= set(got):
                    result.error = max((error(x, got[n]) for n, x in zip(names, outputs)), default=0.0)
        results = sum(np.asarray(v).nbytes for v in got.values())
    except (RuntimeError, OSError) as failure:
        result.message, results = str(failure), 0
    except Exception as failure:  # A process that hangs, output that cannot be read: said, and the next one is measured.
        result.message, results = f"{type(failure).__name__}: {failure}", 0
    finally:
        kiln.close()
    size = sum(v.nbytes for v in feeds.values()) + sum(len(c.raw_data) for c in graph.constants) + results
    result.roofline = machine.roofline_ms(size, graph.operations(), threads)
    return result
