"""A stream of new shapes, each used once, as a service may see them.

Usage: stream.py KILN MODELS [--models a,b] [--shapes 200] [--threads 2] [--seed 5] [--runs 1] [--no-peers] [--background] [--mix CALLS] [--min-time 0.05]
KILN is the command; MODELS the folder that `cargo xtask models` fills. Every process starts with an empty cache.

Per model: the total time of all calls but the first, for kiln, onnxruntime and OpenVINO, interleaved by shape; kiln's
longest wait for a compiler; the compiles after the first call; the outputs that differ from onnxruntime's. Then, for
kiln only, the 95th percentile of a shape's first call over that shape's warm median. --background measures that policy,
with a limit of 10 ms. --mix sends CALLS calls instead, 80 % of them with the same shape, alternately with variants and
without.
"""
import argparse, json, math, os, random, shutil, subprocess, tempfile, time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's threads would spin on and slow the next engine
import numpy as np
from make_cases import line, page, tokens

a = argparse.ArgumentParser()
a.add_argument("kiln"), a.add_argument("folder"), a.add_argument("--models", default="ocr-rec,ocr-det,minilm")
a.add_argument("--shapes", type=int, default=200), a.add_argument("--threads", type=int, default=2)
a.add_argument("--seed", type=int, default=5), a.add_argument("--runs", type=int, default=1)
a.add_argument("--no-peers", action="store_true"), a.add_argument("--background", action="store_true")
a.add_argument("--min-time", type=float, default=0.05), a.add_argument("--mix", type=int, default=0)
a = a.parse_args()
MAX_BLOCK = 10  # milliseconds
QUIET = 0.06  # seconds after a call: onnxruntime's threads keep spinning for about 30 ms, and slow down the next engine


def shapes(name, count):
    """This many different combinations of sizes, determined by the seed."""
    draw, seen = random.Random(f"{a.seed} {name}"), {}
    while len(seen) < count:
        seen[{
            "ocr-rec": lambda: (draw.randint(1, 4), draw.randint(40, 640)),
            "ocr-det": lambda: (32 * draw.randint(2, 20), 32 * draw.randint(2, 20)),
            "ocr-cls": lambda: (draw.randint(1, 24), 192),
            "minilm": lambda: (draw.randint(1, 8), draw.randint(4, 128)),
        }[name]()] = None
    return list(seen)


def feeds(name, sizes, inputs):
    if name in ("ocr-rec", "ocr-cls"):
        return {inputs[0]: line(sizes[0], 48, sizes[1])}
    if name == "ocr-det":
        return {inputs[0]: page(1, *sizes)}
    made = tokens(*sizes)
    return {i: made["mask"] if "mask" in i else np.zeros_like(made["ids"]) if "type" in i else made["ids"] for i in inputs}


def is_right(expect, got):
    """The same criterion as in side_by_side.py."""
    x, y = expect.astype(np.float64), got.astype(np.float64)
    if x.shape != y.shape or np.isnan(y).any():
        return False
    d = x - y
    return np.linalg.norm(d) <= 1e-4 * (np.linalg.norm(x) + 1e-30) and np.abs(d).max(initial=0) <= 1e-3 * (np.abs(x).max(initial=0) + 1e-30)


def command(model, cases, cache, *more):
    return [a.kiln, "bench", model, "--cases", cases, "--cache", cache, "--threads", str(a.threads), "--json", *more]


class Paced:
    """A kiln process that calls its next case on request."""

    def __init__(self, model, cases, cache, out):
        more = ["--policy", "background", "--max-block", str(MAX_BLOCK)] if a.background else []
        self.process = subprocess.Popen(command(model, cases, cache, "--once", "--paced", "--out", out, *more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self):
        self.process.stdin.write("\n"), self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def timed(f, x):
    t = time.perf_counter()
    y = f(x)
    return (time.perf_counter() - t) * 1e3, y


def stream(name, model, cases, given, work):
    """All engines, interleaved shape by shape."""
    import onnxruntime as ort

    so = ort.SessionOptions()
    so.intra_op_num_threads, so.log_severity_level = a.threads, 3
    s = ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    peers = {"ort": lambda x: s.run(None, x)}
    if not a.no_peers:
        import openvino as ov

        c = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": a.threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
        peers["ov"] = lambda x: c(x)
    shutil.rmtree(work + "/cache", ignore_errors=True)
    kiln = Paced(model, cases, work + "/cache", work + "/got")
    times, lines, wrong = {"kiln": [], **{p: [] for p in peers}}, [], 0
    for place, (case, x) in enumerate(given):
        order = list(times)
        order = order[place % len(order):] + order[:place % len(order)]
        for who in order:
            if who == "kiln":
                lines.append(kiln())
                times[who].append(lines[-1]["first_ms"])
            else:
                ms, y = timed(peers[who], x)
                times[who].append(ms)
                expect = y if who == "ort" else expect
            time.sleep(QUIET)
        for output, e in zip(s.get_outputs(), expect):
            path = f"{work}/got/{case}/{output.name.replace('/', '_')}.npy"
            wrong += not (os.path.exists(path) and is_right(e, np.load(path)))
        shutil.rmtree(f"{work}/got/{case}", ignore_errors=True)
    kiln.process.stdin.close(), kiln.process.wait()
    total = {who: sum(t[1:]) for who, t in times.items()}
    best = min(total[p] for p in peers)
    blocked = [l["blocked_ms"] for l in lines]
    print(f"{name:8s} {'background' if a.background else 'first use':10s} total after the first call: kiln {total['kiln']:8.1f} ms  " + "  ".join(f"{p} {total[p]:8.1f}" for p in peers)
          + f"  ratio {total['kiln'] / best:5.2f}  first call {times['kiln'][0]:7.1f}  longest wait {max(blocked if a.background else blocked[1:]):6.2f}"
          + f"  compiles after it {sum(l['compiles'] for l in lines[1:])}  interpreted {sum(l['fallbacks'] for l in lines)}  wrong {wrong} of {len(given)}", flush=True)


def first_over_warm(name, model, cases, work):
    """For kiln only: each shape's first call, and its median right after."""
    shutil.rmtree(work + "/cache", ignore_errors=True)
    r = subprocess.run(command(model, cases, work + "/cache", "--min-time", str(a.min_time)), capture_output=True, text=True)
    lines = [json.loads(l) for l in r.stdout.splitlines()][1:]
    ratios = sorted((l["first_ms"] / l["median_ms"], l["case"]) for l in lines)
    at = lambda p: ratios[min(len(ratios) - 1, math.ceil(p * len(ratios)) - 1)][0]
    extra = sorted(l["first_ms"] - l["median_ms"] for l in lines)
    print(f"{name:8s} first call / warm: median {at(0.5):.2f}  95th percentile {at(0.95):.2f}  largest {ratios[-1][0]:.2f} ({ratios[-1][1]})"
          f"  beyond warm, ms: median {extra[len(extra) // 2]:.2f}  95th percentile {extra[int(0.95 * len(extra))]:.2f}", flush=True)


def mix(name, model, given, work):
    """Four of five calls use the first shape, with variants and without; the second half of each run counts."""
    draw, names = random.Random(f"{a.seed} mix {name}"), [case for case, _ in sorted(given, key=lambda g: sum(x.size for x in g[1].values()))]
    order = [names[0] if draw.random() < 0.8 else draw.choice(names[1:]) for _ in range(a.mix)]
    shutil.rmtree(work + "/mix", ignore_errors=True)
    os.makedirs(work + "/mix")
    for place, case in enumerate(order):
        os.symlink(f"{work}/cases/{case}", f"{work}/mix/{place:06d}")
    late, logs = {}, ""
    for _ in range(a.runs):
        for way in ("with", "without"):
            more = ["--once", "--no-variants"] if way == "without" else ["--once", "--variants-after", "200"]
            r = subprocess.run(command(model, work + "/mix", work + "/cache", *more), capture_output=True, text=True, env={**os.environ, "KILN_LOG": "kiln_lazy_runtime=info"})
            ms = [json.loads(l)["median_ms"] for l in r.stdout.splitlines()]
            late.setdefault(way, []).append([(case, t) for case, t in zip(order, ms)][len(ms) // 2:])
            logs = r.stderr if way == "with" else logs
    best = {way: min(runs, key=lambda run: sum(t for _, t in run)) for way, runs in late.items()}
    total = {way: sum(t for _, t in run) for way, run in best.items()}
    of = lambda way, hot: float(np.median([t for case, t in best[way] if (case == names[0]) == hot]))
    print(f"{name:8s} {len(order)} calls, 80 % {names[0]}: total {total['with']:.1f} ms with variants, {total['without']:.1f} without ({1 - total['with'] / total['without']:+.1%})"
          f"  median of the hot shape {of('with', True):.3f} / {of('without', True):.3f}  of the others {of('with', False):.3f} / {of('without', False):.3f}")
    for line in logs.splitlines():
        if "variant" in line and "fate" in line and "on trial" not in line and "queued" not in line:
            print("   ", line.split("variant", 1)[-1][:200], flush=True)


for name in a.models.split(","):
    model = f"{a.folder}/{name}/model.onnx"
    import onnxruntime as ort

    inputs = [i.name for i in ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()]
    with tempfile.TemporaryDirectory() as work:
        given = []
        for place, sizes in enumerate(shapes(name, a.shapes)):
            case, x = f"{place:03d}-" + "x".join(map(str, sizes)), feeds(name, sizes, inputs)
            os.makedirs(f"{work}/cases/{case}")
            for n, v in x.items():
                np.save(f"{work}/cases/{case}/{n.replace('/', '_')}.npy", v)
            given.append((case, x))
        if a.mix:
            mix(name, model, given, work)
            continue
        for _ in range(a.runs):
            if not a.background:
                first_over_warm(name, model, work + "/cases", work)
            if not a.no_peers or a.background:
                stream(name, model, work + "/cases", given, work)
