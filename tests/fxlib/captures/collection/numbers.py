"""Ways from tensors to Python numbers, arrays and text."""

import math

import numpy as np
import torch
from torch import nn


class Item(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        scale = x.max().item()
        return x * scale


class IntOfTensor(nn.Module):
    def inputs():
        return (torch.ones(4, 3), torch.tensor([2, 3]))

    def forward(self, x, lengths):
        longest = int(lengths.max())
        return x[:longest]


class FloatOfTensor(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * float(x.mean())


class ToList(nn.Module):
    def inputs():
        return (torch.ones(6, 3), torch.tensor([2, 4]))

    def forward(self, x, sizes):
        first, second = torch.split(x, sizes.tolist())
        return first.sum() + second.sum()


class ToListOfFloats(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        values = x.mean(1).tolist()
        return x * values[0]


class RangeOfItem(nn.Module):
    def inputs():
        return (torch.ones(4, 3), torch.tensor(2))

    def forward(self, x, steps):
        for _ in range(steps.item()):
            x = x + 1
        return x


class ZerosOfItem(nn.Module):
    def inputs():
        return (torch.ones(4, 3), torch.tensor([2, 3]))

    def forward(self, x, lengths):
        n = lengths.max().item()
        mask = torch.arange(n) < lengths[:, None]
        return x.sum() * mask.float()


class Numpy(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        array = x.detach().numpy()
        return x + torch.from_numpy(np.cumsum(array, axis=1))


class NumpyFunction(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * np.sqrt(x.shape[1])


class NumpyRandom(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if np.random.rand() < 2:
            x = x + 1
        return x


class MathOfTensor(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x / math.sqrt(x.sum())


class MathOfShape(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x / math.sqrt(x.size(-1))


class Format(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        name = f"mean {x.mean():.3f}"
        return x + len(name)


class TensorOfTensors(nn.Module):
    def inputs():
        return (torch.ones(3),)

    def forward(self, x):
        return torch.tensor([x[0] * 2, x[1] + 1])


class TensorOfShape(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        size = torch.tensor(x.shape[-2:], dtype=torch.float32)
        return x.sum() / size


class ListIndex(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def inputs():
        return (torch.ones(2, 3), torch.tensor(1))

    def forward(self, x, which):
        return self.experts[which](x)


class DictKey(nn.Module):
    def inputs():
        return (torch.ones(2, 3), torch.tensor(1))

    def forward(self, x, which):
        table = {0: 1.0, 1: 2.0}
        return x * table[which.item()]


class Round(nn.Module):
    def inputs():
        return (torch.ones(4, 3),)

    def forward(self, x):
        half = round(x.shape[0] / 2)
        return x[:half]


class Length(nn.Module):
    def inputs():
        return (torch.ones(4, 3),)

    def forward(self, x):
        return x / len(x)


class Detached(nn.Module):
    def inputs():
        return (torch.ones(4, 3),)

    def forward(self, x):
        shift = x.detach().cpu().mean()
        return x - shift


class Hidden(nn.Module):
    """A number, an array and a branch, one after the other."""

    def inputs():
        return (torch.ones(4, 3),)

    def forward(self, x):
        scale = x.max().item()
        array = (x * scale).numpy()
        if array.sum() > 3:
            x = x + 1
        return x
