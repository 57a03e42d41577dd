"""Reduced precision: Kiln's formats compared with onnxruntime's int8, in one run.

Usage: main.py KILN CASES OUT [MODEL...] [--threads 1,2] [--rounds 3] [--min-time 0.6] [--json FILE]
CASES is the output of make_cases.py; OUT is the folder for models and their int8 versions.

Per case, medians in milliseconds and the error against onnxruntime's f32, relative in the 2-norm:
  f32, bf16     Kiln, and onnxruntime's f32
  dynamic       Kiln's `--precision int8`, and the model that onnxruntime's `quantize_dynamic` writes, on onnxruntime
  static        the model that onnxruntime's `quantize_static` writes (QDQ, per channel, calibrated on the cases), on both
Rounds of the engines are interleaved; the best median counts.
"""
import argparse, json, logging, math, os, shutil, subprocess, time
import numpy as np, onnx, onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from shapes import PICTURES, SHAPES

logging.disable(logging.WARNING)  # hides the advice to infer shapes first, which these models do not need
OPEN = ["ocr-rec", "minilm"]


def prepare(name, cases, out):
    """The folder of a model, its cases and its int8 versions."""
    d = f"{out}/{name}"
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    if name in SHAPES:
        onnx.save(SHAPES[name](), d + "/model.onnx")
        rng = np.random.default_rng(3)
        for i, (n, h, w) in enumerate(PICTURES):
            os.makedirs(f"{d}/cases/{i:03}-{n}x3x{h}x{w}")
            np.save(f"{d}/cases/{i:03}-{n}x3x{h}x{w}/x.npy", rng.standard_normal((n, 3, h, w)).astype(np.float32))
    else:
        shutil.copytree(f"{cases}/{name}/cases", d + "/cases")
        shutil.copy(f"{cases}/{name}/model.onnx", d)
    weights_as_initializers(d + "/model.onnx")
    quantize_dynamic(d + "/model.onnx", d + "/dynamic.onnx", weight_type=QuantType.QInt8, per_channel=True)
    quantize_static(d + "/model.onnx", d + "/static.onnx", Cases(d), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return d


def weights_as_initializers(path):
    """Turns constants that are nodes into initializers, which onnxruntime's quantisation expects weights to be."""
    model = onnx.load(path)
    constants = [node for node in model.graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]
    for node in constants:
        tensor = node.attribute[0].t
        tensor.name = node.output[0]
        model.graph.initializer.append(tensor)
        model.graph.node.remove(node)
    onnx.save(model, path)


def feeds(d, session):
    names = [i.name for i in session.get_inputs()]
    folders = sorted(os.listdir(d + "/cases"))
    return {k: {n: np.load(f"{d}/cases/{k}/{n.replace('/', '_')}.npy") for n in names} for k in folders}


class Cases(CalibrationDataReader):
    def __init__(self, d):
        self.rest = iter(feeds(d, session(d + "/model.onnx", 1)).values())

    def get_next(self):
        return next(self.rest, None)


def session(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def median_ms(f, seconds):
    f(), f()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 4:
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return float(np.median(times)) * 1e3


def error(expect, got):
    """The largest relative 2-norm error of any output."""
    norms = [np.linalg.norm((e.astype(np.float64) - g.astype(np.float64)).ravel()) / (np.linalg.norm(e.astype(np.float64)) + 1e-30)
             for e, g in zip(expect, got)]
    return float(max(norms))


def kiln(command, *arguments):
    r = subprocess.run([command, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"kiln {' '.join(arguments)}: {r.stderr.strip()[-400:]}")
    return [json.loads(l) for l in r.stdout.splitlines() if l.startswith("{")]


# Name, file, Kiln's precision or none, whether onnxruntime runs the file.
VARIANTS = [("f32", "model", "f32", True), ("bf16", "model", "bf16", False), ("dynamic", "model", "int8", False),
            ("ort-dynamic", "dynamic", None, True), ("static", "static", "f32", True)]


def measure(a, d, threads):
    """One dictionary per case: `(engine, variant) -> (ms, error)`."""
    peers = {v: session(f"{d}/{file}.onnx", threads) for v, file, _, runs in VARIANTS if runs}
    inputs = feeds(d, peers["f32"])
    expect = {k: peers["f32"].run(None, x) for k, x in inputs.items()}
    names = [o.name for o in peers["f32"].get_outputs()]
    found = {k: {} for k in inputs}
    for v, s in peers.items():
        for k, x in inputs.items():
            found[k]["ort", v] = [math.inf, error(expect[k], s.run(None, x))]
    own = [(v, f"{d}/{file}.onnx", p) for v, file, p, _ in VARIANTS if p]
    for v, path, p in own:
        kiln(a.kiln, "run", path, "--cases", d + "/cases", "--precision", p, "--out", f"{d}/got-{v}", "--threads", str(threads))
        for k in inputs:
            got = [np.load(f"{d}/got-{v}/{k}/{n.replace('/', '_')}.npy") for n in names]
            found[k]["kiln", v] = [math.inf, error(expect[k], got)]
    for _ in range(a.rounds):
        for v, s in peers.items():
            for k, x in inputs.items():
                f = found[k]["ort", v]
                f[0] = min(f[0], median_ms(lambda: s.run(None, x), a.min_time / a.rounds))
        for v, path, p in own:
            for line in kiln(a.kiln, "bench", path, "--cases", d + "/cases", "--precision", p, "--min-time", str(a.min_time / a.rounds),
                             "--threads", str(threads), "--json"):
                if line.get("case") in found:
                    f = found[line["case"]]["kiln", v]
                    f[0] = min(f[0], line["median_ms"])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln"), parser.add_argument("cases"), parser.add_argument("out"), parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", default="1,2"), parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--min-time", type=float, default=0.6), parser.add_argument("--json")
    a = parser.parse_args()
    wanted = [m for m in [*OPEN, *SHAPES] if not a.models or any(w in m for w in a.models)]
    rows = []
    for name in wanted:
        d = prepare(name, a.cases, a.out)
        for threads in map(int, a.threads.split(",")):
            for case, f in measure(a, d, threads).items():
                ms = {f"{e} {v}": t for (e, v), (t, _) in f.items()}
                off = {f"{e} {v}": x for (e, v), (_, x) in f.items()}
                int8 = min(ms["kiln dynamic"], ms["kiln static"])
                peer = min(ms["ort ort-dynamic"], ms["ort static"])
                row = {"model": name, "case": case, "threads": threads, "ms": ms, "error": off, "to_peer": int8 / peer,
                       "static_to_peer": ms["kiln static"] / ms["ort static"], "dynamic_to_peer": ms["kiln dynamic"] / ms["ort ort-dynamic"],
                       "gain": ms["kiln f32"] / int8, "bf16_gain": ms["kiln f32"] / ms["kiln bf16"]}
                rows.append(row)
                print(f"{name:13s} {case:18s} threads {threads}  kiln: " + "  ".join(f"{v} {ms['kiln ' + v]:.2f} ({off['kiln ' + v]:.0e})" for v in ("f32", "bf16", "dynamic", "static"))
                      + "  onnxruntime: " + "  ".join(f"{v.removeprefix('ort-')} {ms['ort ' + v]:.2f} ({off['ort ' + v]:.0e})" for v in ("f32", "ort-dynamic", "static"))
                      + f"  int8: {row['to_peer']:.2f} of onnxruntime, {row['gain']:.2f} times f32; bf16 {row['bf16_gain']:.2f} times", flush=True)
    if a.json:
        with open(a.json, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
    mean = lambda key: math.exp(sum(math.log(r[key]) for r in rows) / len(rows))
    worst = lambda key: max(r[key] for r in rows)
    least = lambda key: min(r[key] for r in rows)
    print(f"int8 kiln/onnxruntime geomean {mean('to_peer'):.2f} worst {worst('to_peer'):.2f} (static {mean('static_to_peer'):.2f}, dynamic {mean('dynamic_to_peer'):.2f}); "
          f"int8 over f32 geomean {mean('gain'):.2f} least {least('gain'):.2f}; bf16 over f32 geomean {mean('bf16_gain'):.2f} least {least('bf16_gain'):.2f}; {len(rows)} measurements")


main()
