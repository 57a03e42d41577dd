"""Generates exporter-like models and compares what Kiln gives with what onnxruntime gives.

    compare.py KILN FOLDER COUNT SEED

Each model is called with eight shapes in random order in one process per backend. A model that fails keeps its folder:
`model.onnx`, `cases/` and `report.txt`. The exit code is 1 when there is a wrong result, a crash, a refusal without a code
or more than 2 % of refusals among the calls that onnxruntime computes.
"""

import collections
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

from families import FAMILIES

SHAPES = 8
OPSETS = (11, 13, 17, 18)
BACKENDS = ("interpreter", "llvm")
# Seconds for all shapes of a model on one backend.
TIME_LIMIT = 60
# Relative to the largest element of a result.
TOLERANCE = 5e-5
MOST_REFUSALS = 0.02


def generate(seed):
    """The model of a seed with its inputs, or none where the family has no form in the version that came."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    graph, call = family(rng, int(rng.choice(OPSETS)))
    return family.__name__, graph.model(), [call(rng) for _ in range(SHAPES)]


def write(folder, model, calls):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for index, call in enumerate(calls):
        case = os.path.join(folder, "cases", f"{index:03}")
        os.makedirs(case)
        for name, value in call.items():
            np.save(os.path.join(case, f"{name}.npy"), value)


def expected(model, calls):
    """What onnxruntime gives for each call; none where it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = []
    for call in calls:
        try:
            results.append(session.run(None, call))
        except Exception:  # onnxruntime's own exceptions have no common base
            results.append(None)
    return results


def agree(given, wanted, is_quantised):
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        return False
    if given.dtype.kind != "f":
        return np.array_equal(given, wanted)
    if not np.array_equal(np.isnan(given), np.isnan(wanted)):
        return False
    finite = np.isfinite(wanted)
    if not np.array_equal(given[~finite], wanted[~finite], equal_nan=True):
        return False
    largest = float(np.abs(wanted[finite]).max(initial=1.0))
    # A quantised result may be a step off where a sum lies between two steps.
    bound = 0.06 if is_quantised else TOLERANCE * largest
    return bool((np.abs(given[finite] - wanted[finite]) <= bound).all())


def run(kiln, folder, backend):
    """Runs all cases; the process, or none past the time limit."""
    command = [kiln, "run", os.path.join(folder, "model.onnx"), "--cases", os.path.join(folder, "cases"),
               "--out", os.path.join(folder, backend), "--backend", backend]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return None


def check(kiln, folder, backend, names, wanted, tally, family):
    """Counts how each call of a model went on a backend; what is wrong, as lines."""
    process = run(kiln, folder, backend)
    if process is None:
        tally[f"timeout ({family})"] += SHAPES
        return [f"{backend}: more than {TIME_LIMIT} s"]
    if process.returncode < 0 or "panicked" in process.stderr:
        tally["CRASH"] += SHAPES
        return [f"{backend}: ended by {process.returncode}: {process.stderr[-2000:]}"]
    problems = []
    for index, results in enumerate(wanted):
        if results is None:
            continue
        case = os.path.join(folder, backend, f"{index:03}")
        if not os.path.isdir(case):
            of_case = [line for line in process.stderr.splitlines() if f"{index:03}" in line]
            text = (of_case or process.stderr.strip().splitlines() or ["no message"])[0]
            code = re.search(r"E\d{4}", text) or re.search(r"E\d{4}", process.stderr)
            tally[f"refused {code.group() if code else 'WITHOUT A CODE'} ({family})"] += 1
            problems.append(f"{backend} {index:03}: {text}")
            continue
        is_quantised = family == "quantised"
        given = [np.load(os.path.join(case, f"{name}.npy")) for name in names]
        bad = [name for name, a, b in zip(names, given, results) if not agree(a, np.asarray(b), is_quantised)]
        tally["WRONG" if bad else "agrees"] += 1
        problems += [f"{backend} {index:03}: {name} differs" for name in bad]
    return problems


def main(kiln, root, count, seed):
    onnxruntime.set_default_logger_severity(4)
    tallies = {backend: collections.Counter() for backend in BACKENDS}
    unusable = 0
    for number in range(seed, seed + count):
        family, model, calls = generate(number)
        try:
            wanted = expected(model, calls)
        except Exception:
            unusable += 1
            continue
        folder = os.path.join(root, f"{family}_{number}")
        write(folder, model, calls)
        names = [output.name for output in model.graph.output]
        problems = []
        for backend in BACKENDS:
            problems += check(kiln, folder, backend, names, wanted, tallies[backend], family)
        if problems:
            with open(os.path.join(folder, "report.txt"), "w", encoding="utf-8") as file:
                file.write("\n".join(problems) + "\n")
        else:
            shutil.rmtree(folder)
    failed = False
    for backend, tally in tallies.items():
        total = sum(tally.values())
        refused = sum(n for what, n in tally.items() if what.startswith(("refused", "timeout")))
        print(f"\n{backend}: {total} calls")
        for what, n in sorted(tally.items(), key=lambda entry: -entry[1]):
            print(f"  {n:7}  {what}")
        bad = tally["WRONG"] + tally["CRASH"] + sum(n for what, n in tally.items() if "WITHOUT" in what)
        failed |= bad > 0 or refused > MOST_REFUSALS * max(total, 1)
        print(f"  {100 * refused / max(total, 1):.1f} % refused")
    print(f"\n{count} models, {unusable} that onnxruntime does not load; those that failed are in {root}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
