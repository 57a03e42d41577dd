"""Compares Kiln's results with onnxruntime's, for generated models that imitate those of exporters.

    compare.py PROGRAM FOLDER COUNT SEED
    compare.py PROGRAM FOLDER torch

PROGRAM calls models on Kiln. Each model is called with eight shapes in random order, on each device, in a process that
is reused for the next model. The folder of a failing model is kept: `model.onnx`, `cases/` and `report.txt`. The exit
code is 1 if there is a wrong result, a crash, or an error without a code, or if Kiln rejects more than 2 % of the calls
that onnxruntime computes.
"""

import collections
import concurrent.futures
import os
import re
import shutil
import sys
import threading
import time

import numpy as np
import onnx
import onnxruntime

from worker import Silence, Worker

DEVICES = ("interpreter", "cpu")
# Seconds for all shapes of a model on one device.
TIME_LIMIT = 120
# Relative to the largest element of a result.
TOLERANCE = 5e-5
MOST_REFUSALS = 0.02


def write(folder, case):
    os.makedirs(folder)
    onnx.save(case.model, os.path.join(folder, "model.onnx"))
    for index, call in enumerate(case.calls):
        path = os.path.join(folder, "cases", f"{index:03}")
        os.makedirs(path)
        for name, value in call.items():
            np.save(os.path.join(path, f"{name}.npy"), value)


def expected(case):
    """onnxruntime's results for each call; None if it rejects the call."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Runs the model as written, operator by operator.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = []
    for call in case.calls:
        try:
            results.append(session.run(None, call))
        except Exception:  # onnxruntime's own exceptions have no common base
            results.append(None)
    return results


def allowed(step, results):
    """The tolerance of a result: a number, or a factor of the largest element of another result."""
    if isinstance(step, tuple):
        factor, index = step
        return factor * float(np.abs(results[index]).max(initial=0.0))
    return step


def difference(given, wanted, step):
    """How two results differ; None if they agree."""
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        return f"expected {wanted.dtype}{list(wanted.shape)}, found {given.dtype}{list(given.shape)}"
    if given.dtype.kind != "f":
        unlike = int((given != wanted).sum())
        return f"{unlike} of {given.size} elements differ" if unlike else None
    finite = np.isfinite(wanted)
    if not np.array_equal(given[~finite], wanted[~finite], equal_nan=True):
        return "not the same NaN and infinities"
    largest = float(np.abs(wanted[finite]).max(initial=1.0))
    off = np.abs(given[finite].astype(np.float64) - wanted[finite])
    worst = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
    bound = max(step * 1.01, TOLERANCE * largest)
    return f"{worst:.3g} apart where {bound:.3g} is allowed" if worst > bound else None


def cause(outcome):
    """An error's code and message, without the parts that are specific to the model."""
    if outcome["code"] is None:
        is_panic = outcome["message"].startswith("panicked")
        return f"{'CRASH' if is_panic else 'WITHOUT A CODE'}: {outcome['message']}"
    text = re.sub(r"`[^`]*`|\d+|%\w+", "_", outcome["message"].splitlines()[0])
    return f"{outcome['code']} {text[:140]}"


class Tally:
    """The outcomes of all calls on a device."""

    def __init__(self):
        self.agree, self.wrong, self.crashed = 0, 0, 0
        self.refused = collections.Counter()

    def total(self):
        return self.agree + self.wrong + self.crashed + self.refused.total()

    def failed(self):
        untyped = any(what.startswith("WITHOUT") for what in self.refused)
        return bool(self.wrong or self.crashed or untyped or self.refused.total() > MOST_REFUSALS * self.total())

    def print(self, device):
        total = max(self.total(), 1)
        print(f"\n{device}: {self.agree} of {self.total()} calls agree, {self.wrong} are wrong, {self.crashed} crashed, "
              f"{self.refused.total()} are refused ({100 * self.refused.total() / total:.2f} %)")
        for what, count in self.refused.most_common():
            print(f"  {count:6}  {what}")


class Comparison:
    def __init__(self, program, root):
        self.program, self.root = program, root
        self.tallies = {device: Tally() for device in DEVICES}
        self.unusable = collections.Counter()
        self.lock = threading.Lock()
        self.local = threading.local()
        self.workers = []

    def worker(self):
        if not hasattr(self.local, "worker"):
            self.local.worker = Worker(self.program, TIME_LIMIT)
            self.workers.append(self.local.worker)
        return self.local.worker

    def compare(self, label, make):
        """Compares one model on all devices."""
        try:
            case = make()
            wanted = expected(case)
        except Exception as error:
            with self.lock:
                self.unusable[f"{label}: {str(error).splitlines()[0][:160]}"] += 1
            return
        folder = os.path.join(self.root, case.name)
        write(folder, case)
        problems = []
        for device in DEVICES:
            problems += self.check(folder, device, case, wanted)
        if problems:
            with open(os.path.join(folder, "report.txt"), "w", encoding="utf-8") as file:
                file.write("\n".join(problems) + "\n")
        else:
            shutil.rmtree(folder)

    def check(self, folder, device, case, wanted):
        """Calls a model on a device and counts the outcomes; returns the failures as lines."""
        tally = self.tallies[device]
        names = [f"{index:03}" for index, results in enumerate(wanted) if results is not None]
        if not names:
            return []
        try:
            answer = self.worker().ask({"folder": folder, "device": device, "cases": names, "prefix": device})
        except Silence as silence:
            with self.lock:
                tally.crashed += len(names)
            return [f"{device}: {silence}"]
        problems = []
        outcomes = [answer["refused"]] * len(names) if answer["refused"] else answer["calls"]
        for name, outcome, results in zip(names, outcomes, (r for r in wanted if r is not None)):
            if outcome["verdict"] != "passed":
                what = cause(outcome)
                with self.lock:
                    if what.startswith("CRASH"):
                        tally.crashed += 1
                    else:
                        tally.refused[f"{what} ({case.family})"] += 1
                problems.append(f"{device} {name}: {outcome['code']}: {outcome['message']}")
                continue
            off = []
            for index, result in enumerate(results):
                path = os.path.join(folder, "cases", name, f"{device}.{index}.npy")
                unlike = difference(np.load(path), np.asarray(result), allowed(case.steps[index], results))
                if unlike:
                    off.append(f"{device} {name}: result {index}: {unlike}")
            with self.lock:
                if off:
                    tally.wrong += 1
                else:
                    tally.agree += 1
            problems += off
        return problems

    def report(self, count, seconds):
        for device, tally in self.tallies.items():
            tally.print(device)
        print(f"\n{count} models in {seconds:.0f} s, {self.unusable.total()} of them not exported or not loaded by onnxruntime; "
              f"what failed is in {self.root}")
        for what in self.unusable:
            print(f"  {what}")
        return 1 if any(tally.failed() for tally in self.tallies.values()) else 0


def main(program, root, *what):
    onnxruntime.set_default_logger_severity(4)
    if what[0] == "torch":
        import torch_modules
        cases = list(torch_modules.cases())
    else:
        import generated
        cases = list(generated.cases(int(what[0]), int(what[1])))
    comparison = Comparison(program, root)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = [pool.submit(comparison.compare, *case) for case in cases]
        for future in done:
            future.result()
    for worker in comparison.workers:
        worker.close()
    return comparison.report(len(cases), time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
