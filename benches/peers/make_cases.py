"""Write case folders and expected outputs for the open models. Usage: make_cases.py OUT MODELS

MODELS is the folder that `cargo xtask models` fills.
OUT/<model>/model.onnx, OUT/<model>/cases/<case>/<input>.npy, OUT/<model>/expect/<case>/<output>.npy
(a '/' in a tensor name becomes '_'). Expected outputs come from onnxruntime without graph optimisation;
a case whose outputs with and without optimisation differ by more than 1e-5 is rejected as ill-conditioned.
"""
import os, shutil, sys
import numpy as np, onnxruntime as ort
from PIL import Image, ImageDraw, ImageFont

rng = np.random.default_rng(7)


def noise(*shape):
    return rng.standard_normal(shape).astype(np.float32)


WORDS = "Kiln fires 0123 shapes of clay: ABC xyz 4567 dynamic batch, width & height".split()


def page(n, h, w, size=None, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
    """n pictures of text on a light background with a little noise, normalised, f32[n, 3, h, w]."""
    out = np.empty((n, 3, h, w), np.float32)
    for i in range(n):
        im = Image.new("RGB", (w, h), (235, 232, 225))
        d, step = ImageDraw.Draw(im), size or max(16, h // 12)
        font = ImageFont.load_default(size=int(step * 0.7))
        for row, y in enumerate(range(step // 6, max(h - step // 2, step // 6 + 1), step)):
            d.text((4 + 3 * i, y), " ".join(WORDS[(row + i + k) % len(WORDS)] for k in range(w // step + 1)), (20 + 10 * i, 25, 40), font)
        x = np.asarray(im, np.float32) / 255 + 0.02 * rng.standard_normal((h, w, 3)).astype(np.float32)
        out[i] = ((x - mean) / std).transpose(2, 0, 1)
    return out


def line(n, h, w):
    """n pictures of one text line, normalised to [-1, 1], f32[n, 3, h, w]."""
    return page(n, h, w, size=h, mean=(0.5,) * 3, std=(0.5,) * 3)


def tokens(b, s):
    """Token ids and a mask, with rows of different lengths."""
    mask = np.ones((b, s), np.int64)
    for i in range(1, b):
        mask[i, s - (i * 7) % max(1, s // 2):] = 0
    return {"ids": rng.integers(1000, 30000, (b, s)).astype(np.int64), "mask": mask}


def write(out, name, model, cases, extra=(), check=1e-5):
    """Copy the model, write each case and onnxruntime's outputs."""
    d = f"{out}/{name}"
    os.makedirs(d, exist_ok=True)
    shutil.copy(model, d + "/model.onnx")
    for f in extra:
        shutil.copy(f, d)
    so = ort.SessionOptions()
    so.log_severity_level = 3
    s = ort.InferenceSession(d + "/model.onnx", so, providers=["CPUExecutionProvider"])
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = ort.InferenceSession(d + "/model.onnx", so, providers=["CPUExecutionProvider"])
    if cases is None:  # one case of noise at the model's original shape
        i = s.get_inputs()[0]
        cases = [{i.name: noise(*[x if isinstance(x, int) else 1 for x in i.shape])}]
    for k, feeds in enumerate(cases):
        tag = f"{k:03d}-" + "_".join("x".join(map(str, v.shape)) or "scalar" for v in feeds.values())
        results = dict(zip([o.name for o in plain.get_outputs()], plain.run(None, feeds)))
        for n, v in zip([o.name for o in s.get_outputs()], s.run(None, feeds)):
            e = results[n].astype(np.float64)
            gap = np.linalg.norm(e - v) / (np.linalg.norm(e) + 1e-30)
            assert gap < check, f"{name} {tag} {n}: optimised and plain answers differ by {gap:.1e}"
        for sub, tensors in (("cases", feeds), ("expect", results)):
            os.makedirs(f"{d}/{sub}/{tag}", exist_ok=True)
            for n, v in tensors.items():
                np.save(f"{d}/{sub}/{tag}/{n.replace('/', '_')}.npy", v)
    print(name, len(cases), "cases")


def main(out, models):
    at = lambda name: f"{models}/{name}/model.onnx"
    write(out, "ocr-cls", at("ocr-cls"), [{"x": np.ascontiguousarray(line(n, 48, 192)[..., ::-1])} for n in (1, 6, 3)])
    write(out, "ocr-rec", at("ocr-rec"), [{"x": line(n, 48, w)} for n, w in ((1, 320), (6, 320), (2, 517), (1, 96))])
    write(out, "ocr-det", at("ocr-det"), [{"x": page(1, h, w)} for h, w in ((320, 320), (640, 480), (736, 1280), (64, 96))])
    write(out, "minilm", at("minilm"), [tokens(b, s) for b, s in ((1, 8), (1, 128), (8, 64), (16, 128), (3, 37))],
          [f"{models}/minilm/model.safetensors"])


if __name__ == "__main__":
    main(*sys.argv[1:])
