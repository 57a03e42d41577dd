"""Kiln beside onnxruntime and OpenVINO, operator by operator, in one run.

Usage: main.py KILN [WORD...] [--threads 1,2] [--modes static,natural,all] [--rounds 3] [--seconds 0.1]
                    [--json FILE] [--page FILE] [--check FILE]

Runs only configurations whose family or name contains a WORD. --json writes a line per measurement, and keeps the
file's lines for other configurations; --page writes a page of the book for all of them; --check compares with such a
file, and fails if a configuration is 1.3 times as slow as recorded, relative to the roofline. The last line is
`N configurations, geomean G, above 1.2: A, above 2: B, worst W`, for ratios to the fastest peer.
"""
import argparse
import os
import sys

import elementwise
import moves
import products
import reductions
import report
from graph import MODES, Graph
from measure import measure

ABOUT = """# Speed, operator by operator

Single operators, or a few that belong together, at sizes from real networks. Ratios are Kiln's time divided by that of the faster of
onnxruntime and OpenVINO, measured in the same run, in interleaved rounds. *Static*: all sizes are constants of the model. *Natural*:
batch, length, height and width are symbols. *All*: every size is a symbol. *Roofline*: the time that this machine needs to copy as
many bytes, or to perform as many multiplications, as the configuration requires, divided by Kiln's time. The time and roofline columns
are for static sizes and the fewest threads. All measurements are warm: every engine has seen the sizes before, and Kiln has compiled
its variants for recurring sizes.

`cargo xtask bench --ops` measures it; `cargo xtask bench --ops --write` also writes this page. The configurations are in
`benches/peers/ops`.
"""


def configurations(words):
    """Pairs of family and graph, in order."""
    found = []

    def add(family, name, build):
        if not words or any(w in f"{family}: {name}" for w in words):
            g = Graph(name)
            build(g)
            found.append((family, g))

    for module in (elementwise, moves, reductions, products):
        module.configurations(add)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln"), parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", default="1,2"), parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rounds", type=int, default=3), parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--json"), parser.add_argument("--page"), parser.add_argument("--check")
    a = parser.parse_args()
    command, measurements = os.path.abspath(a.kiln), []
    for family, graph in configurations(a.words):
        for mode in a.modes.split(","):
            for threads in map(int, a.threads.split(",")):
                m = measure(family, graph, mode, threads, command, a.rounds, a.seconds)
                if m:
                    measurements.append(m)
                    print(report.line(m), flush=True)
    worse = list(report.slower(measurements, report.read(a.check))) if a.check else []
    sums = list(report.sums(measurements))
    if a.json:
        measurements = report.record(a.json, measurements)
    if a.page:
        with open(a.page, "w") as file:
            file.writelines(text + "\n" for text in report.page(measurements, ABOUT))
    print(*worse, *sums, sep="\n")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
