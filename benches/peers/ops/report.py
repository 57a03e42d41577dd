"""Reports a run: a line per configuration, summaries, a page for the book, and a comparison with a recorded run."""
import json
import math
import os
import statistics

from measure import Measurement

SLOWER = 1.3  # The slowdown at which a change is rejected, as a factor on the recorded share of the roofline.
NOISE_MS = 0.02  # Differences below this are ignored, since a call has a fixed cost.
COMPILE_MS = 150


def mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def line(m):
    number = lambda v: f"{v:9.3f}" if v is not None else "        -"
    ratio = f"{m.ratio:6.2f}" if m.ratio else "     -"
    share = f"{m.share:5.0%}" if m.share else "    -"
    error = f"{m.error:.0e}" if m.error is not None else "-"
    return (f"{m.family + ': ' + m.name:52.52s} {m.mode:7s} {m.threads}  ort {number(m.onnxruntime)}  ov {number(m.openvino)}  kiln {number(m.kiln)}  "
            f"ratio {ratio}  roofline {share}  error {error:>5s}  first {m.first or 0:6.0f}" + (f"  {m.message}" if m.message else ""))


def summary(measurements):
    """`N configurations, geomean G, above 1.2: A, above 2: B, worst W`"""
    ratios = [m.ratio for m in measurements if m.ratio]
    above = lambda limit: sum(r > limit for r in ratios)
    return (f"{len(ratios)} configurations, geomean {mean(ratios):.2f}, above 1.2: {above(1.2)}, above 2: {above(2)}, "
            f"worst {max(ratios, default=float('nan')):.1f}")


def sums(measurements):
    """Lines for each mode and number of threads, then failures, then the summary."""
    for mode, threads in sorted({(m.mode, m.threads) for m in measurements}):
        part = [m for m in measurements if (m.mode, m.threads) == (mode, threads)]
        yield f"{mode}, {threads} threads: {summary(part)}"
    for m in measurements:
        if m.message:
            yield f"not run: {m.family}: {m.name} ({m.mode}): {m.message}"
        elif m.error is not None and m.error > 0.02:
            yield f"differs: {m.family}: {m.name} ({m.mode}): {m.error:.1e}"
        if m.compile and m.compile > COMPILE_MS:
            yield f"compiled for more than {COMPILE_MS} ms: {m.family}: {m.name} ({m.mode}): {m.compile:.0f} ms"
    yield summary(measurements)


def page(measurements, about):
    """A table in Markdown: one row per configuration, ratios to the fastest peer, the share of the roofline."""
    by_name, columns = {}, sorted({(m.threads, m.mode) for m in measurements}, key=lambda c: (c[0], ("static", "natural", "all").index(c[1])))
    for m in measurements:
        by_name.setdefault((m.family, m.name), {})[(m.threads, m.mode)] = m
    yield about
    for threads, mode in columns:
        yield f"- {mode} sizes, {threads} thread{'s' * (threads > 1)}: {summary([m for m in measurements if (m.threads, m.mode) == (threads, mode)])}"
    family = None
    for (of, name), row in by_name.items():
        if of != family:
            family = of
            yield f"\n## {of[0].upper() + of[1:]}\n"
            yield "| configuration | kiln, ms | roofline | " + " | ".join(f"{mode}, {threads}" for threads, mode in columns) + " |"
            yield "|---|---:|---:|" + "---:|" * len(columns)
        first = next(iter(row.values()))
        cell = lambda m: "" if m is None else (f"{m.ratio:.2f}" if m.ratio else ("fails" if m.message else "no peer"))
        time = f"{first.kiln:.3f}" if first.kiln else ""
        share = f"{first.share:.0%}" if first.share else ""
        yield f"| {name} | {time} | {share} | " + " | ".join(cell(row.get(c)) for c in columns) + " |"


def record(path, measurements):
    """Replaces the measurements of these configurations in a file, and returns all that it contains."""
    new = {m.key: m for m in measurements}
    old = {m.key: m for m in read(path)} if os.path.exists(path) else {}
    merged = list({**old, **new}.values())
    with open(path, "w") as file:
        file.writelines(json.dumps(m.asdict()) + "\n" for m in merged)
    return merged


def read(path):
    with open(path) as file:
        return [Measurement(**json.loads(l)) for l in file]


def slower(measurements, recorded):
    """The configurations that are slower than recorded, relative to the roofline of each run."""
    before = {m.key: m for m in recorded}
    for m in measurements:
        old = before.get(m.key)
        if not old or not old.share:
            continue
        if not m.share:
            yield f"no longer runs: {m.family}: {m.name} ({m.mode}, {m.threads}): {m.message}"
        elif old.share / m.share > SLOWER and m.kiln - m.roofline / old.share > NOISE_MS:
            yield f"slower: {m.family}: {m.name} ({m.mode}, {m.threads}): {m.share:.0%} of the roofline, recorded {old.share:.0%}"
