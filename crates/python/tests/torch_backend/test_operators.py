"""Single operators of PyTorch's that modules of the other tests lack: values and gradients."""

import pytest

torch = pytest.importorskip("torch")

import kiln.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    kiln.torch.reset()
    torch.manual_seed(7)


def sequences(batch, length):
    return torch.randn(batch, length, 16)


def pictures(batch, side):
    return torch.randn(batch, 3, side + side % 2, 2 * side)


def tokens(batch, length):
    return torch.randint(0, 20, (batch, length))


OPERATORS = {
    "pixel shuffle": (lambda x: F.pixel_shuffle(torch.cat([x, x.flip(1)[:, :1]], 1), 2), pictures),
    "transposed convolution": (lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 2, 2), stride=2), pictures),
    "three axes": (lambda x: F.conv3d(x[:, None], torch.ones(2, 1, 1, 3, 3)), pictures),
    "same padding": (lambda x: F.conv2d(x, torch.ones(2, 3, 3, 3), padding="same"), pictures),
    "glu": (F.glu, sequences),
    "celu": (F.celu, sequences),
    "selu": (F.selu, sequences),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), sequences),
    "log softmax": (lambda x: F.log_softmax(x, -1), sequences),
    "binary cross entropy": (lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).float()), sequences),
    "smooth losses": (lambda x: F.smooth_l1_loss(x, x * 0.5) + F.huber_loss(x, x * 2), sequences),
    "cosine similarity": (lambda x: F.cosine_similarity(x, x.flip(1), -1), sequences),
    "normalise": (lambda x: F.normalize(x, dim=-1), sequences),
    "local response": (nn.LocalResponseNorm(3), pictures),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), pictures),
    "bilinear by corners": (lambda x: F.interpolate(x, size=(9, 9), mode="bilinear", align_corners=True), pictures),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), pictures),
    "one hot": (lambda x: F.one_hot(x, 20), tokens),
    "sort": (lambda x: x.sort(1)[0], sequences),
    "log of a sum": (lambda x: x.logsumexp(-1), sequences),
    "norms": (lambda x: x.norm(dim=-1) + x.abs().sum(-1), sequences),
    "elements": (lambda x: x[torch.arange(x.shape[0]), -1], sequences),
    "elements put": (lambda x: x.index_put((torch.tensor([0, 1]),), torch.zeros(16)), sequences),
    "scatter": (lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x), sequences),
    "mean pooling": (lambda x: F.adaptive_avg_pool2d(F.avg_pool2d(x, 2), 3), pictures),
    "maximum rounded up": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), pictures),
    "maximum padded": (lambda x: F.max_pool2d(x, 3, 2, 1), pictures),
    "triangle": (lambda x: torch.tril(x @ x.mT), sequences),
    "windows": (lambda x: x.unfold(1, 3, 2), sequences),
    "masks": (lambda x: x.masked_fill(x < 0, -1e9).clamp(max=1), sequences),
    "moments": (lambda x: x.var(1) + x.std((1,), unbiased=False), sequences),
    "integers": (lambda x: (x // 3) * 2 + x % 5, tokens),
    "truth values": (lambda x: ((x > 3) & (x < 9)).any(-1), tokens),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_values_and_gradients(name):
    function, inputs = OPERATORS[name]
    ours = torch.compile(function, backend=kiln.torch.backend, dynamic=True, options={"cache": False})
    for size in [(6, 10), (5, 12)]:
        x = inputs(*size)
        if x.is_floating_point():
            x.requires_grad_()
        expected, found = function(x), ours(x)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        if expected.requires_grad:
            slopes = [torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)]
            torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)
    counted = kiln.torch.counters()
    assert counted["eager_graphs"] == 0 and counted["eager_calls"] == 0, kiln.torch.explain()


def test_a_layer_of_the_encoder_outside_of_training():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    ours = torch.compile(layer, backend=kiln.torch.backend, dynamic=True, options={"cache": False})
    with torch.no_grad():
        for size in [(6, 10), (5, 12)]:
            x = sequences(*size)
            torch.testing.assert_close(ours(x), layer(x), rtol=1e-4, atol=1e-4)
    assert kiln.torch.counters()["eager_calls"] == 0, kiln.torch.explain()


def test_one_graph_serves_sizes_of_one_where_pytorch_lets_it():
    layer = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.LayerNorm(8))
    ours = torch.compile(layer, backend=kiln.torch.backend, dynamic=True, options={"cache": False})
    with torch.no_grad(), torch.fx.experimental._config.patch(backed_size_oblivious=True):
        for size in [(6, 10), (1, 12), (5, 1)]:
            x = sequences(*size)
            torch.testing.assert_close(ours(x), layer(x), rtol=1e-4, atol=1e-4)
    assert kiln.torch.counters()["compiled_graphs"] == 1, kiln.torch.explain()
