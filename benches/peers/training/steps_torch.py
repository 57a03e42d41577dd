"""Training steps in PyTorch: `python steps_torch.py CASE [compiled]`."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

from timing import SIZES, batch, measure, threads


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(256), nn.LayerNorm(256)
        self.in_proj, self.out_proj = nn.Linear(256, 768), nn.Linear(256, 256)
        self.linear1, self.linear2 = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.in_proj(self.norm1(x)).reshape(b, t, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out_proj(mixed.transpose(1, 2).reshape(b, t, width))
        return x + self.linear2(torch.relu(self.linear1(self.norm2(x))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(128, 128)

    def forward(self, x):
        return self.lstm(x)[0]


def network(name):
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    if name == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
        )
    return Block() if name == "transformer" else Recurrent()


def main():
    name = sys.argv[1]
    torch.manual_seed(0)
    torch.set_num_threads(threads())
    model = network(name)
    if name == "mlp":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = functional.cross_entropy if name in ("mlp", "cnn") else functional.mse_loss

    def forward(x, y):
        return criterion(model(x), y)

    loss_of = torch.compile(forward) if "compiled" in sys.argv else forward
    given = [torch.from_numpy(array) for array in batch(name, SIZES[name])]

    def step(given=given):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss.item()

    begin = time.perf_counter()
    step()
    measure(name, step, (time.perf_counter() - begin) * 1e3)
    other = [torch.from_numpy(array) for array in batch(name, SIZES[name] + 1)]
    begin = time.perf_counter()
    step(other)
    print(f"{name} another {(time.perf_counter() - begin) * 1e3:.1f}")


main()
