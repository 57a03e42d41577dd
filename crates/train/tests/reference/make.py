"""Writes `gradients.json`: gradients of operators and networks as PyTorch computes them, in f64.

`python make.py`, with the PyTorch that `benches/peers/training/requirements.txt` pins. Inputs follow from a formula that the test
`reference_gradients.rs` has too, so that only the gradients are stored. The functions of both files have the same names.
"""

import json
import pathlib

import torch
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)


def values(shape, seed):
    count = 1
    for size in shape:
        count *= size
    numbers = [((i * 37 + seed * 101) % 97) / 48.5 - 0.99 for i in range(count)]
    return torch.tensor(numbers).reshape(shape)


def positive(x):
    return x.abs() + 0.3


OPS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / positive(y),
    "pow": lambda x, y: positive(x) ** y,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "square": lambda x, y: x.square(),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: positive(x).log(),
    "sqrt": lambda x, y: positive(x).sqrt(),
    "rsqrt": lambda x, y: positive(x).rsqrt(),
    "sin": lambda x, y: x.sin(),
    "cos": lambda x, y: x.cos(),
    "tan": lambda x, y: x.tan(),
    "asin": lambda x, y: (x * 0.9).asin(),
    "acos": lambda x, y: (x * 0.9).acos(),
    "atan": lambda x, y: x.atan(),
    "sinh": lambda x, y: x.sinh(),
    "cosh": lambda x, y: x.cosh(),
    "asinh": lambda x, y: x.asinh(),
    "acosh": lambda x, y: (positive(x) + 1).acosh(),
    "atanh": lambda x, y: (x * 0.9).atanh(),
    "tanh": lambda x, y: x.tanh(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "relu": lambda x, y: x.relu(),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x),
    "softplus": lambda x, y: F.softplus(x),
    "softsign": lambda x, y: F.softsign(x),
    "mish": lambda x, y: F.mish(x),
    "elu": lambda x, y: F.elu(x),
    "selu": lambda x, y: F.selu(x),
    "erf": lambda x, y: x.erf(),
    "log1p": lambda x, y: positive(x).log1p(),
    "expm1": lambda x, y: x.expm1(),
    "reciprocal": lambda x, y: positive(x).reciprocal(),
    "select": lambda x, y: torch.where(x > y, x * 2, y * 3),
    "sum": lambda x, y: x.sum(0),
    "mean": lambda x, y: x.mean(1),
    "max": lambda x, y: x.amax(1),
    "min": lambda x, y: x.amin(0),
    "product": lambda x, y: x.prod(1),
    "softmax": lambda x, y: x.softmax(1),
    "log_softmax": lambda x, y: x.log_softmax(0),
    "matmul": lambda x, y: x @ y.T,
    "transpose": lambda x, y: x.T * 2,
    "permute": lambda x, y: x.reshape(3, 2, 2).permute(2, 0, 1),
    "reshape": lambda x, y: x.reshape(2, 6) * 3,
    "broadcast": lambda x, y: x.sum(1, keepdim=True).expand(3, 4) * y,
    "slice": lambda x, y: x[1:3],
    "squeeze": lambda x, y: x.reshape(3, 1, 4).squeeze(1),
    "unsqueeze": lambda x, y: x.unsqueeze(1) * y,
    "concat": lambda x, y: torch.cat([x, y * 2], 1),
    "gather": lambda x, y: x[torch.tensor([2, 0, 2])],
    "gather_elements": lambda x, y: x.gather(1, torch.tensor([[0], [3], [3]])),
    "conv": lambda x, y: F.conv2d(x.reshape(1, 1, 3, 4), y.reshape(2, 1, 2, 3), padding=1),
    "conv_strided": lambda x, y: F.conv1d(x.reshape(1, 2, 6), y.reshape(2, 2, 3), stride=2, padding=1),
    "conv_transpose": lambda x, y: F.conv_transpose1d(x.reshape(1, 2, 6), y.reshape(2, 2, 3), stride=2),
    "conv_groups": lambda x, y: F.conv1d(x.reshape(1, 2, 6), y.reshape(4, 1, 3), groups=2),
    "max_pool": lambda x, y: F.max_pool1d(x.reshape(1, 2, 6), 2, 2),
    "mean_pool": lambda x, y: F.avg_pool1d(x.reshape(1, 2, 6), 3, 1, 1, count_include_pad=False),
    "cross_entropy": lambda x, y: F.cross_entropy(x, torch.tensor([1, 0, 3])),
    "mean_squared_error": lambda x, y: F.mse_loss(x, y),
    "binary_cross_entropy": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid().detach()),
    "scan": lambda x, y: running(x, y),
}


def running(x, y):
    state, outputs = y[0], []
    for row in x:
        state = (state * row).tanh() + row
        outputs.append(state)
    return torch.stack(outputs)


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def conv(p, name, x, padding=0):
    return F.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], padding=padding)


def mlp(p, x):
    return linear(p, "fc2", linear(p, "fc1", x).tanh())


def cnn(p, x):
    h = conv(p, "conv", x, 1)
    h = F.batch_norm(h, None, None, p["norm.weight"], p["norm.bias"], training=True, eps=1e-5).relu()
    return linear(p, "out", F.max_pool2d(h, 2).flatten(1))


def unet(p, x):
    down = conv(p, "down", x, 1).tanh()
    low = conv(p, "low", F.max_pool2d(down, 2), 1).tanh()
    up = F.conv_transpose2d(low, p["up.weight"], p["up.bias"], stride=2)
    return conv(p, "out", torch.cat([up, down], 1))


def transformer(p, x):
    h = F.layer_norm(x, (4,), p["norm.weight"], p["norm.bias"], 1e-5)
    b, t, width = x.shape
    q, k, v = (h @ p["attention.in_proj_weight"].T + p["attention.in_proj_bias"]).reshape(b, t, 3, 2, 2).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(p, "attention.out_proj", mixed.transpose(1, 2).reshape(b, t, width))
    return x + linear(p, "linear2", F.gelu(linear(p, "linear1", x)))


def lstm(p, x):
    h, c, outputs = torch.zeros(2, 3), torch.zeros(2, 3), []
    for row in x:
        sums = row @ p["lstm.weight_ih_l0"].T + p["lstm.bias_ih_l0"] + h @ p["lstm.weight_hh_l0"].T + p["lstm.bias_hh_l0"]
        i, f, g, o = sums.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs)


def experts(p, x):
    gates = linear(p, "gate", x).softmax(1)
    results = torch.stack([linear(p, f"expert{i}", x).tanh() for i in range(3)], 1)
    return (gates.unsqueeze(2) * results).sum(1)


NETWORKS = {
    "mlp": (mlp, (5, 3), {"fc1.weight": (4, 3), "fc1.bias": (4,), "fc2.weight": (2, 4), "fc2.bias": (2,)}),
    "cnn": (cnn, (3, 2, 4, 4), {
        "conv.weight": (3, 2, 3, 3), "conv.bias": (3,), "norm.weight": (3,), "norm.bias": (3,),
        "out.weight": (2, 12), "out.bias": (2,)}),
    "unet": (unet, (2, 1, 4, 6), {
        "down.weight": (2, 1, 3, 3), "down.bias": (2,), "low.weight": (3, 2, 3, 3), "low.bias": (3,),
        "up.weight": (3, 2, 2, 2), "up.bias": (2,), "out.weight": (1, 4, 1, 1), "out.bias": (1,)}),
    "transformer": (transformer, (2, 3, 4), {
        "norm.weight": (4,), "norm.bias": (4,), "attention.in_proj_weight": (12, 4), "attention.in_proj_bias": (12,),
        "attention.out_proj.weight": (4, 4), "attention.out_proj.bias": (4,),
        "linear1.weight": (6, 4), "linear1.bias": (6,), "linear2.weight": (4, 6), "linear2.bias": (4,)}),
    "lstm": (lstm, (4, 2, 3), {
        "lstm.weight_ih_l0": (12, 3), "lstm.weight_hh_l0": (12, 3), "lstm.bias_ih_l0": (12,), "lstm.bias_hh_l0": (12,)}),
    "experts": (experts, (4, 3), {
        "gate.weight": (3, 3), "gate.bias": (3,),
        **{f"expert{i}.{kind}": shape for i in range(3) for kind, shape in (("weight", (2, 3)), ("bias", (2,)))}}),
}


def loss(y):
    return (y * values(y.shape, 9)).sum()


def main():
    found = {}
    for name, op in OPS.items():
        x, y = values((3, 4), 1).requires_grad_(), values((3, 4), 2).requires_grad_()
        slopes = torch.autograd.grad(loss(op(x, y)), (x, y), allow_unused=True, materialize_grads=True)
        found[f"op {name}"] = {"x": slopes[0].flatten().tolist(), "y": slopes[1].flatten().tolist()}
    for name, (network, shape, sizes) in NETWORKS.items():
        p = {key: values(size, i + 3).requires_grad_() for i, (key, size) in enumerate(sizes.items())}
        slopes = torch.autograd.grad(loss(network(p, values(shape, 1))), list(p.values()), materialize_grads=True, allow_unused=True)
        found[f"network {name}"] = {key: slope.flatten().tolist() for key, slope in zip(p, slopes)}
    rounded = {
        name: {key: [float(f"{number:.9g}") for number in numbers] for key, numbers in gradients.items()}
        for name, gradients in found.items()
    }
    path = pathlib.Path(__file__).with_name("gradients.json")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(gradients)}" for name, gradients in rounded.items())
    path.write_text("{\n" + lines + "\n}\n")


main()
