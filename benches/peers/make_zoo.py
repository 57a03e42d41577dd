"""Write case folders for further architectures. Usage: make_zoo.py OUT [NAME…]

Architectures from torchvision and a few small ones of other kinds (a detector, a segmenter, a text recogniser, a
decoder with a cache, speech, 3-D, normalisation between convolutions), with random weights, exported to ONNX with
dynamic sizes. Needs the packages in requirements-zoo.txt. The folders have the layout of make_cases.py, for
side_by_side.py.
"""
import math, os, sys, tempfile, warnings
import numpy as np, torch, torchvision
import torch.nn as nn, torch.nn.functional as F
from make_cases import write

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.backends.mha.set_fastpath_enabled(False)
PICTURE = {0: "N", 2: "H", 3: "W"}
VISION = """resnet50 resnext50_32x4d mobilenet_v2 mobilenet_v3_small efficientnet_b0 efficientnet_v2_s mnasnet1_0 densenet121
squeezenet1_1 shufflenet_v2_x1_0 googlenet inception_v3 regnet_y_400mf convnext_tiny vit_b_32 swin_t""".split()


class Conv(nn.Sequential):
    def __init__(self, i, o, k=3, stride=1):
        super().__init__(nn.Conv2d(i, o, k, stride, k // 2), nn.SiLU())


class Split(nn.Module):
    """Splits the channels in half, and concatenates both halves with the outputs of all blocks on the second."""

    def __init__(self, i, o, n):
        super().__init__()
        h = o // 2
        self.a, self.b = Conv(i, o, 1), Conv(h * (2 + n), o, 1)
        self.m = nn.ModuleList([nn.Sequential(Conv(h, h), Conv(h, h)) for _ in range(n)])

    def forward(self, x):
        y = list(self.a(x).chunk(2, 1))
        for m in self.m:
            y.append(y[-1] + m(y[-1]))
        return self.b(torch.cat(y, 1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        w = [16, 32, 64, 128, 256]
        self.stem, self.down = Conv(3, w[0], 3, 2), nn.ModuleList([Conv(w[i], w[i + 1], 3, 2) for i in range(4)])
        self.split = nn.ModuleList([Split(c, c, n) for c, n in zip(w[1:], (1, 2, 2, 1))])
        self.p, self.q = Conv(256, 128, 1), Conv(512, 256, 1)
        self.u, self.v, self.head = Split(384, 128, 1), Split(192, 64, 1), nn.Conv2d(64, 144, 1)

    def forward(self, x):
        x, kept = self.stem(x), []
        for down, split in zip(self.down, self.split):
            x = split(down(x))
            kept.append(x)
        pools = [self.p(x)]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        y = self.q(torch.cat(pools, 1))
        y = self.u(torch.cat([F.interpolate(y, scale_factor=2.0), kept[2]], 1))
        y = self.v(torch.cat([F.interpolate(y, scale_factor=2.0), kept[1]], 1))
        return torch.sigmoid(self.head(y)).flatten(2)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        c = [3, 32, 64, 128, 256]
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.GroupNorm(8, o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1), nn.ReLU())
        self.down = nn.ModuleList([block(c[i], c[i + 1]) for i in range(4)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(c[i + 1], c[i], 2, 2) for i in (3, 2, 1)])
        self.join, self.out = nn.ModuleList([block(2 * c[i], c[i]) for i in (3, 2, 1)]), nn.Conv2d(32, 1, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(x)
            if i < 3:
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for up, join, k in zip(self.up, self.join, kept[::-1]):
            x = join(torch.cat([up(x), k], 1))
        return self.out(x)


class Normalised(nn.Module):
    """Dilated convolutions with norms between them, then upsampling."""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv2d(64 if i else 3, 64, 3, 1, 2**i, dilation=2**i) for i in range(4)])
        self.norms = nn.ModuleList([nn.GroupNorm(8, 64), nn.InstanceNorm2d(64, affine=True)])

    def forward(self, x):
        for i, c in enumerate(self.c):
            x = F.leaky_relu(self.norms[i % 2](c(x)), 0.1)
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2))
        self.l, self.o = nn.LSTM(512, 128, 2, bidirectional=True), nn.Linear(256, 97)

    def forward(self, x):
        y = self.c(x)
        n, c, h, w = y.shape
        return self.o(self.l(y.permute(3, 0, 1, 2).reshape(w, n, c * h))[0])


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(1, 64, 10, 5), nn.Conv1d(64, 64, 3, 2), nn.Conv1d(64, 128, 3, 2), nn.Conv1d(128, 128, 2, 2)])
        self.p, self.n = nn.Conv1d(128, 128, 31, padding=15, groups=16), nn.LayerNorm(128)

    def forward(self, x):
        for c in self.c:
            x = F.gelu(c(x))
        return self.n((x + F.gelu(self.p(x))).transpose(1, 2))


class Volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv3d(3, 16, 3, 1, 1), nn.Conv3d(16, 32, 3, (1, 2, 2), 1)
        self.n, self.f = nn.BatchNorm3d(32), nn.Linear(32, 10)

    def forward(self, x):
        return self.f(F.max_pool3d(F.relu(self.n(self.b(F.relu(self.a(x))))), 2).mean((2, 3, 4)))


WIDTH, HEADS, LAYERS, WORDS = 512, 8, 4, 4000


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.m, self.n = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.o, self.f, self.g = (nn.Linear(i * WIDTH, o * WIDTH) for i, o in ((1, 3), (1, 1), (1, 4), (4, 1)))

    def forward(self, x, past, mask):
        n, t, _ = x.shape
        q, k, v = self.q(self.m(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        y = ((scores if mask is None else scores + mask).softmax(-1) @ v).transpose(1, 2).reshape(n, t, WIDTH)
        x = x + self.o(y)
        return x + self.g(F.gelu(self.f(self.n(x)), approximate="tanh")), k, v


class Decoder(nn.Module):
    """A decoder: for a whole text without a cache, or for one token with a cache."""

    def __init__(self):
        super().__init__()
        self.e, self.l = nn.Embedding(WORDS, WIDTH), nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.n, self.h = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, keys=None, values=None):
        x, t, kept = self.e(ids), ids.shape[1], []
        mask = torch.full((t, t), -1e9).triu(1) if keys is None else None
        for i, layer in enumerate(self.l):
            x, k, v = layer(x, None if keys is None else (keys[i], values[i]), mask)
            kept.append((k, v))
        x = self.h(self.n(x))
        return x if keys is None else (x, *(torch.stack(part) for part in zip(*kept)))


def vision(name):
    model = getattr(torchvision.models, name)(weights=None)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1), part.running_var.uniform_(0.5, 1.5)
        if isinstance(part, nn.Linear):
            part.reset_parameters()
    size = 299 if name == "inception_v3" else 224
    fixed = name in ("vit_b_32", "swin_t")
    sizes = [(1, size, size)] if fixed else [(1, size, size), (2, size - 32, size + 64)]
    return model, {"x": {0: "N"} if fixed else PICTURE}, [(torch.randn(n, 3, h, w),) for n, h, w in sizes]


def past(n):
    return torch.randn(LAYERS, 1, HEADS, n, WIDTH // HEADS)


OTHERS = {
    "detector": lambda: (Detector(), {"x": PICTURE}, [(torch.randn(1, 3, h, w),) for h, w in ((320, 320), (192, 416))]),
    "segmenter": lambda: (Segmenter(), {"x": PICTURE}, [(torch.randn(1, 3, h, w),) for h, w in ((128, 128), (96, 200))]),
    "normalised": lambda: (Normalised(), {"x": PICTURE}, [(torch.randn(1, 3, h, w),) for h, w in ((96, 96), (50, 70))]),
    "reader": lambda: (Reader(), {"x": {3: "W"}}, [(torch.randn(1, 1, 32, w),) for w in (160, 348)]),
    "speech": lambda: (Speech(), {"x": {0: "N", 2: "T"}}, [(torch.randn(1, 1, t),) for t in (16000, 5000)]),
    "volume": lambda: (Volume(), {"x": {0: "N"}}, [(torch.randn(1, 3, 8, 56, 56),)]),
    "decoder": lambda: (Decoder(), {"ids": {0: "N", 1: "S"}}, [(torch.randint(0, WORDS, (1, s)),) for s in (64, 17)]),
    "decoder-step": lambda: (Decoder(), {"ids": {}, "keys": {3: "P"}, "values": {3: "P"}}, [(torch.randint(0, WORDS, (1, 1)), past(n), past(n)) for n in (100, 333)]),
}


def main(out, names):
    for name in names or [*VISION, *OTHERS]:
        model, axes, cases = OTHERS[name]() if name in OTHERS else vision(name)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = os.path.join(folder, "model.onnx")
            torch.onnx.export(model.eval(), cases[0], path, input_names=[*axes], dynamic_axes=axes, opset_version=17, dynamo=False)
            write(out, name, path, [{k: v.numpy() for k, v in zip(axes, case)} for case in cases], check=1e-4)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
