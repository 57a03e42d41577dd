"""Modules that the backend is tested with: each with inputs of several sizes."""

import torch
from torch import nn
from torch.nn import functional as F

#: The sizes that each module is called with: a batch, and a length or the side of a picture.
SIZES = [(6, 10), (5, 12), (2, 7), (7, 16), (4, 9), (3, 33), (8, 24), (9, 8)]


class Block(nn.Module):
    """A transformer's block: attention and a network, with residuals."""

    def __init__(self, width=16, heads=4, causal=False, masked=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.heads, self.causal, self.masked = heads, causal, masked

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mask = mask[:, None, None, :] if self.masked else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class WrittenAttention(nn.Module):
    """Attention written out, with a bias and a mask of its own."""

    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.bias = nn.Parameter(torch.randn(1))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-1, -2) / 4 + self.bias
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


class Encoder(nn.Module):
    """Tokens to vectors: embeddings of tokens and positions, blocks, a pooled result."""

    def __init__(self, width=16):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class RotaryAttention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qk = nn.Linear(width, 2 * width)
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, width, 2) / width))

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.frequencies)
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)

        def turned(y):
            a, b = y.chunk(2, -1)
            return y * cos + torch.cat([-b, a], -1) * sin

        q, k = self.qk(x).chunk(2, -1)
        return (turned(q) @ turned(k).mT).softmax(-1) @ x


class RMSNorm(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale


class GatedUnit(nn.Module):
    """SwiGLU."""

    def __init__(self, width=16):
        super().__init__()
        self.norm = RMSNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, 40), nn.Linear(width, 40), nn.Linear(40, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.skip = nn.Conv2d(channels, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.Sequential(Residual(8), Residual(8, 2))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.blocks(F.max_pool2d(self.stem(x), 2))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class MobileBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 12, 1), nn.Hardswish(), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.ReLU6(), nn.Conv2d(12, 3, 1)
        )
        self.down, self.up = nn.Conv2d(3, 2, 1), nn.Conv2d(2, 3, 1)

    def forward(self, x):
        y = self.layers(x)
        squeezed = F.hardsigmoid(self.up(F.relu(self.down(y.mean((2, 3), keepdim=True)))))
        return x + y * squeezed


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 6, 3, padding=1)
        self.middle = nn.Conv2d(6, 6, 3, padding=1)
        self.up = nn.Conv2d(12, 4, 3, padding=1)

    def forward(self, x):
        first = F.relu(self.down(x))
        middle = F.relu(self.middle(F.max_pool2d(first, 2)))
        wide = F.interpolate(middle, size=first.shape[-2:], mode="nearest")
        return self.up(torch.cat([first, wide], 1))


class Upsampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return F.interpolate(self.conv(x), scale_factor=2, mode="bilinear", align_corners=False)


class DetectionHead(nn.Module):
    """Boxes and classes for every cell of a grid."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.classes, self.boxes = nn.Conv2d(8, 5, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        features = F.silu(self.conv(x))
        scores = self.classes(features).sigmoid().flatten(2).transpose(1, 2)
        boxes = self.boxes(features).flatten(2).transpose(1, 2)
        rows, columns = features.shape[-2:]
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        centres = torch.stack([x, y], -1).reshape(1, -1, 2)
        corners = torch.cat([centres + boxes[..., :2].tanh() - boxes[..., 2:].exp() / 2, centres + boxes[..., 2:].exp() / 2], -1)
        best, label = scores.max(-1)
        return corners, best, label


class Recurrent(nn.Module):
    """A cell, four steps."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 12)
        for step in range(4):
            state = self.cell(x[:, step], state)
        return state


class LongShort(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 12)

    def forward(self, x):
        h, c = x.new_zeros(x.shape[0], 12), x.new_zeros(x.shape[0], 12)
        outputs = []
        for step in range(3):
            h, c = self.cell(x[:, step], (h, c))
            outputs.append(h)
        return torch.stack(outputs, 1)


class TemporalConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(16, 8, 3, dilation=2), nn.Conv1d(8, 16, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        y = F.pad(x.transpose(1, 2), (4, 0))
        return x + self.conv2(F.leaky_relu(self.norm(self.conv1(y)), 0.1)).transpose(1, 2)


class Mixer(nn.Module):
    """Channels are mixed, and statistics of the sequence."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 16)

    def forward(self, x):
        mean, spread = x.mean(1, keepdim=True), x.std(1, keepdim=True)
        joined = torch.cat([x, mean.expand_as(x), spread.expand_as(x)], -1)
        return F.softplus(self.layer(joined)).cumsum(1)


class Ranking(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        scores = self.score(x).squeeze(-1)
        values, places = scores.topk(3, dim=1)
        chosen = x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))
        return values.softmax(-1)[..., None] * chosen, scores.argmax(1)


class Distances(nn.Module):
    def forward(self, x):
        squares = x.square().sum(-1)
        return (squares[:, :, None] + squares[:, None, :] - 2 * x @ x.mT).clamp(min=0).add(1).sqrt()


class Autoencoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 8), nn.ELU(), nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 16), nn.Sigmoid())


class Classifier(nn.Module):
    """With its loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 5))

    def forward(self, x):
        logits = self.layers(x.mean(1))
        labels = torch.arange(x.shape[0]) % 5
        return F.cross_entropy(logits, labels, label_smoothing=0.1)


class Patches(nn.Module):
    """The beginning of a vision transformer."""

    def __init__(self):
        super().__init__()
        self.conv, self.token = nn.Conv2d(3, 16, 2, stride=2), nn.Parameter(torch.randn(1, 1, 16))
        self.block = Block()

    def forward(self, x):
        patches = self.conv(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1)
        return self.block(tokens)[:, 0]


class Spectral(nn.Module):
    """Pictures in pieces: reflection, mean pooling, differences."""

    def forward(self, x):
        y = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, stride=1)
        return (x - y).abs().amax((2, 3)), x.flip(-1)[..., ::2], x.roll(1, -1)


class Memory(nn.Module):
    """A table that is updated at indices."""

    def forward(self, x):
        counts = torch.zeros(x.shape[0], 8)
        places = (x[:, :4, 0] * 3).long().clamp(0, 7)
        return counts.scatter_add(1, places, x[:, :4, 1]), torch.where(x > 0, x, x * 0.2)


class Interaction(nn.Module):
    """Pairs of features of a recommendation, with an embedding of several fields."""

    def __init__(self):
        super().__init__()
        self.fields = nn.ModuleList(nn.Embedding(20, 6) for _ in range(3))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        vectors = torch.stack([table(tokens[:, at]) for at, table in enumerate(self.fields)], 1)
        pairs = torch.einsum("bfd,bgd->bfg", vectors, vectors)
        return pairs.triu(1).sum((1, 2)) + self.bias


class Mixture(nn.Module):
    """Experts, each weighted."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 3)
        self.experts = nn.Parameter(torch.randn(3, 16, 16) / 4)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        outputs = torch.einsum("bld,edk->blek", x, self.experts)
        return (outputs * weights[..., None]).sum(-2)


def sequences(batch, length):
    return (torch.randn(batch, length, 16),)


def masked_sequences(batch, length):
    lengths = torch.arange(batch) % length + 1
    return torch.randn(batch, length, 16), torch.arange(length)[None] < lengths[:, None]


def tokens(batch, length):
    return (torch.randint(0, 20, (batch, length)),)


def pictures(batch, side):
    return (torch.randn(batch, 3, side + side % 2, 2 * side),)


#: Name: module, inputs, whether it is trained.
MODULES = {
    "block": (Block, sequences, True),
    "causal block": (lambda: Block(causal=True), sequences, True),
    "masked block": (lambda: Block(masked=True), masked_sequences, True),
    "written attention": (WrittenAttention, sequences, True),
    "encoder": (Encoder, tokens, True),
    "rotary attention": (RotaryAttention, sequences, False),
    "rms norm": (RMSNorm, sequences, True),
    "gated unit": (GatedUnit, sequences, True),
    "resnet": (ResNet, pictures, True),
    "mobile block": (MobileBlock, pictures, True),
    "u-net": (UNet, pictures, True),
    "upsampler": (Upsampler, pictures, True),
    "detection head": (DetectionHead, pictures, False),
    "gru cell": (lambda: Recurrent(nn.GRUCell(16, 12)), sequences, True),
    "rnn cell": (lambda: Recurrent(nn.RNNCell(16, 12)), sequences, False),
    "lstm cell": (LongShort, sequences, True),
    "temporal convolution": (TemporalConvolution, sequences, True),
    "mixer": (Mixer, sequences, False),
    "ranking": (Ranking, sequences, False),
    "distances": (Distances, sequences, False),
    "autoencoder": (Autoencoder, sequences, True),
    "classifier": (Classifier, sequences, True),
    "patches": (Patches, pictures, True),
    "spectral": (Spectral, pictures, False),
    "memory": (Memory, sequences, False),
    "interaction": (Interaction, tokens, True),
    "mixture": (Mixture, sequences, True),
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Mish()), pictures, True),
    "instance norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.SiLU()), pictures, False),
    "embedding bag by hand": (lambda: nn.Sequential(nn.Embedding(20, 8), nn.LayerNorm(8), nn.Hardtanh()), tokens, False),
}
