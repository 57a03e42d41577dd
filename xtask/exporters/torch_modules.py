"""torch modules exported by both of torch's exporters, with dynamic sizes."""

import io
import logging
import threading
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

from generated import SHAPES, Case

torch.set_num_threads(1)
# As in practice, exports attention decomposed, and not as an op that the older exporter does not support.
torch.backends.mha.set_fastpath_enabled(False)
# The exporters log a lot, and the comparison lists the models that they reject.
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

MODULES = []
# torch's exporters have global state, so only one export runs at a time.
EXPORTER = threading.Lock()


def module(shapes, **inputs):
    """Registers a module: the names of its inputs, their sizes (a name for a dynamic size, a number for a fixed one),
    and the ranges of the dynamic sizes."""
    def register(cls):
        MODULES.append((cls, inputs, shapes))
        return cls
    return register


B, S = (1, 5), (2, 12)
IMAGE = {"b": (1, 4), "h": (8, 24), "w": (8, 24)}
TEXT = {"b": B, "s": S}
PICTURE = ["b", 3, "h", "w"]


@module(TEXT, x=["b", "s", 8])
class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


@module(TEXT, x=["b", "s", 8])
class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    def forward(self, x):
        return self.layer(x)


@module(TEXT | {"t": (1, 9)}, x=["b", "s", 8], memory=["b", "t", 8])
class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x, memory):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
        return self.layer(x, memory, tgt_mask=mask)


@module(TEXT, x=["b", "s", 8])
class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, 8)


@module(TEXT | {"p": (1, 9)}, x=["b", "s", 8], past=["b", "p", 8])
class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x, past):
        keys = torch.cat([past, self.key(x)], dim=1)
        at = torch.arange(past.shape[1], keys.shape[1])
        seen = torch.arange(keys.shape[1])[None, :] <= at[:, None]
        scores = (x @ keys.transpose(1, 2)).masked_fill(~seen, -1e9)
        return scores.softmax(-1) @ keys, keys


@module(TEXT, ids=["b", "s", "int64:0:20"])
class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand_as(ids)
        return self.norm(self.words(ids) + self.positions(at))


@module(TEXT, x=["b", "s", 8], mask=["b", "s", "int64:0:2"])
class MaskedMean(nn.Module):
    def forward(self, x, mask):
        wide = mask.unsqueeze(-1).expand(x.size()).float()
        return (x * wide).sum(1) / wide.sum(1).clamp(min=1e-9)


@module(TEXT, x=["b", "s", 8])
class Rotary(nn.Module):
    def forward(self, x):
        at = torch.arange(x.shape[1], dtype=torch.float32)
        angles = torch.outer(at, 1.0 / 100.0 ** (torch.arange(0, 8, 2).float() / 8))
        angles = torch.cat([angles, angles], dim=-1)
        a, b = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()


@module(TEXT, x=["b", "s", 8])
class RmsGated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@module(TEXT, x=["b", "s", 8])
class LongShortTerm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(8, 4, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.layer(x)[0]


@module(TEXT, x=["b", "s", 8])
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(8, 4, batch_first=True)

    def forward(self, x):
        y, last = self.layer(x)
        return y, last.squeeze(0)


@module({"b": B, "t": (12, 40)}, x=["b", 6, "t"])
class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.point, self.depth, self.norm = nn.Conv1d(6, 12, 1), nn.Conv1d(6, 6, 7, padding=3, groups=6), nn.BatchNorm1d(6)

    def forward(self, x):
        return x + F.silu(self.norm(self.depth(F.glu(self.point(x), dim=1))))


@module({"b": B, "t": (24, 60)}, x=["b", "t", 10])
class Subsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Conv2d(1, 4, 3, 2), nn.Conv2d(4, 4, 3, 2), nn.Linear(4, 8)

    def forward(self, x):
        h = F.relu(self.second(F.relu(self.first(x.unsqueeze(1)))))
        b, c, t, f = h.shape
        return self.out(h.transpose(1, 2).reshape(b, t, c * f)[..., :4])


@module({"b": B, "t": (16, 40)}, x=["b", 4, "t"])
class DilatedCausal(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, dilation=2 ** i) for i in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x + torch.tanh(layer(F.pad(x, (2 * 2 ** i, 0))))
        return x


@module(IMAGE, x=PICTURE)
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])
        self.skip, self.out = nn.Conv2d(3, 8, 1, 2), nn.Linear(8, 5)

    def forward(self, x):
        h = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return self.out(F.adaptive_avg_pool2d(F.relu(h + self.skip(x)), 1).flatten(1))


@module(IMAGE, x=PICTURE)
class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(3, 8, 3, padding=1, groups=1), nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        h = F.hardswish(self.conv(x))
        return h * F.hardsigmoid(self.up(F.relu(self.down(h.mean((2, 3), keepdim=True)))))


@module(IMAGE, x=PICTURE)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.low, self.out = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, 2, 1), nn.Conv2d(12, 2, 1)
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x):
        first = F.silu(self.norm(self.down(x)))
        up = F.interpolate(self.low(first), size=first.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(torch.cat([first, up], dim=1))


@module(IMAGE, x=PICTURE)
class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        return a + F.interpolate(b, size=a.shape[-2:], mode="nearest"), F.interpolate(b, scale_factor=2.0, mode="nearest")


@module(IMAGE, x=PICTURE)
class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2)
        return self.layer(torch.cat([self.token.expand(h.shape[0], -1, -1), h], dim=1))[:, 0]


@module(IMAGE, x=["b", "h", "w", 4])
class Windows(nn.Module):
    def forward(self, x):
        b, h, w, c = x.shape
        x = F.pad(x, (0, 0, 0, -w % 4, 0, -h % 4))
        _, tall, wide, _ = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        windows = x.view(b, tall // 4, 4, wide // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        windows = (windows @ windows.transpose(1, 2)).softmax(-1) @ windows
        x = windows.view(b, tall // 4, wide // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, tall, wide, c)
        return torch.roll(x, (2, 2), (1, 2))[:, :h, :w]


@module(IMAGE, x=PICTURE)
class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x):
        return F.pixel_shuffle(self.conv(x), 2), F.pixel_unshuffle(F.pad(x, (0, x.shape[-1] % 2, 0, x.shape[-2] % 2)), 2)


@module(IMAGE, x=PICTURE)
class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 4, 2, 1), nn.ConvTranspose2d(4, 3, 4, 2, 1)

    def forward(self, x):
        return torch.sigmoid(self.up(F.leaky_relu(self.down(x), 0.2)))


@module(IMAGE, x=PICTURE)
class InstanceStyle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True)

    def forward(self, x):
        return F.elu(self.norm(self.conv(F.pad(x, (1, 1, 1, 1), mode="reflect"))))


@module(IMAGE, x=PICTURE)
class Pools(nn.Module):
    def forward(self, x):
        a = F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
        b = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        return a, b, x.amax((2, 3)), x.std((2, 3), unbiased=False)


@module({"n": (1, 9)}, x=["n", 6])
class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.PReLU(), nn.Linear(8, 3))

    def forward(self, x):
        y = self.stack(x)
        return y.log_softmax(-1), y.argmax(-1), F.one_hot(y.argmax(-1), 3)


@module({"n": (3, 12)}, boxes=["n", 4], scores=["n"])
class BestBoxes(nn.Module):
    def forward(self, boxes, scores):
        top, index = scores.topk(3)
        chosen = boxes[index]
        area = (chosen[:, 2] - chosen[:, 0]).abs() * (chosen[:, 3] - chosen[:, 1]).abs()
        return chosen, top, torch.where(area > 0.5, top, torch.zeros_like(top))


@module(TEXT, x=["b", "s", 8])
class Sorted(nn.Module):
    def forward(self, x):
        norms = x.norm(dim=-1)
        order = norms.argsort(dim=-1, descending=True)
        return torch.gather(x, 1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1])), norms.cumsum(-1)


@module(TEXT, x=["b", "s", 8])
class SliceAssignment(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:] = x[:, :-1]
        y[:, 0] = 0
        return y, x[:, ::2], x.flip(1)


@module(TEXT, x=["b", "s", 8])
class Relative(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 2)

    def forward(self, x):
        at = torch.arange(x.shape[1])
        far = (at[None, :] - at[:, None]).clamp(-4, 4) + 4
        scores = x @ x.transpose(1, 2)
        return scores.unsqueeze(1) + self.table(far).permute(2, 0, 1)


@module(TEXT, x=["b", "s", 8])
class Einsums(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 8, 4) * 0.3)

    def forward(self, x):
        q = torch.einsum("bsd,hde->bhse", x, self.weight)
        return torch.einsum("bhse,bhte->bhst", q, q).softmax(-1)


@module({"b": B, "t": (4, 12)}, x=["b", 3, "t"], grid=["b", "t", "float32:-1:1"])
class Sampled(nn.Module):
    def forward(self, x, grid):
        points = torch.stack([grid, torch.zeros_like(grid)], dim=-1).unsqueeze(1)
        return F.grid_sample(x.unsqueeze(2), points, align_corners=False).squeeze(2)


@module({"b": B, "n": (2, 9)}, x=["b", "n", 3], y=["b", "n", 3])
class Distances(nn.Module):
    def forward(self, x, y):
        d = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(-1).sqrt()
        return d.min(dim=-1).values, torch.logsumexp(-d, dim=1), torch.tril(d)


@module(TEXT, x=["b", "s", 8])
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 3), nn.Parameter(torch.randn(3, 8, 4)), nn.Parameter(torch.randn(3, 4, 8))

    def forward(self, x):
        shares, index = self.gate(x).softmax(-1).topk(2)
        weights = torch.zeros(*x.shape[:2], 3).scatter(-1, index, shares)
        every = torch.einsum("bsd,edh,ehf->besf", x, self.up, self.down)
        return torch.einsum("besf,bse->bsf", every, weights)


@module(TEXT, x=["b", "s", 8])
class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(7, 8))

    def forward(self, x):
        flat = x.reshape(-1, 8)
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        index = distance.argmin(1)
        return self.codes[index].view_as(x), index.view(x.shape[:-1])


@module(TEXT, x=["b", "s", 8])
class Latents(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents, self.key, self.value = nn.Parameter(torch.randn(3, 8)), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        q = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        return F.scaled_dot_product_attention(q, self.key(x), self.value(x)).flatten(1)


def value(rng, spec, sizes):
    """A random input; a last entry `dtype:low:high` gives the range of its values."""
    kind, low, high = "float32", None, None
    if isinstance(spec[-1], str) and ":" in spec[-1]:
        kind, low, high = spec[-1].split(":")
        spec = spec[:-1]
    shape = [size if isinstance(size, int) else sizes[size] for size in spec]
    if kind == "int64":
        return rng.integers(int(low), int(high), shape)
    if low is not None:
        return rng.uniform(float(low), float(high), shape).astype(np.float32)
    return rng.standard_normal(shape).astype(np.float32)


def open_sizes(spec):
    return {axis: size for axis, size in enumerate(spec) if isinstance(size, str) and ":" not in size}


def call(rng, inputs, shapes):
    return with_sizes(rng, inputs, {name: int(rng.integers(low, high + 1)) for name, (low, high) in shapes.items()})


def example(rng, inputs, shapes):
    """The example inputs for an export: no size is 1 or equal to another, which the newer exporter would specialise."""
    return with_sizes(rng, inputs, {name: high - 1 - index for index, (name, (_, high)) in enumerate(shapes.items())})


def with_sizes(rng, inputs, sizes):
    return {name: value(rng, spec, sizes) for name, spec in inputs.items()}


def export(cls, inputs, shapes, number, dynamo):
    """A module's exported model, and its calls."""
    torch.manual_seed(number)
    rng = np.random.default_rng(number)
    net = cls().eval()
    arguments = tuple(torch.from_numpy(array) for array in example(rng, inputs, shapes).values())
    names = list(inputs)
    if dynamo:
        dynamic = {name: {axis: torch.export.Dim.DYNAMIC for axis in open_sizes(spec)} for name, spec in inputs.items()}
        program = torch.onnx.export(net, arguments, dynamo=True, input_names=names, dynamic_shapes=dynamic, verbose=False)
        model = program.model_proto
    else:
        axes = {name: open_sizes(spec) for name, spec in inputs.items()}
        file = io.BytesIO()
        torch.onnx.export(net, arguments, file, dynamo=False, input_names=names, dynamic_axes=axes, opset_version=17)
        model = onnx.load_from_string(file.getvalue())
    calls = [call(rng, inputs, shapes) for _ in range(SHAPES)]
    name = f"{cls.__name__}_{'dynamo' if dynamo else 'script'}"
    return Case(name, name, model, calls, [0.0] * len(model.graph.output))


def export_alone(*args):
    with EXPORTER:
        return export(*args)


def cases():
    for number, (cls, inputs, shapes) in enumerate(MODULES):
        for dynamo in (False, True):
            label = f"{cls.__name__}, {'newer' if dynamo else 'older'} exporter"
            yield label, lambda args=(cls, inputs, shapes, number, dynamo): export_alone(*args)
