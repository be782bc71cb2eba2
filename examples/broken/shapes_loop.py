"""Loops and conversions over traced sizes: a recurrent cell unrolled by hand, and attention that unpacks shapes."""

import math

import torch
from torch import nn


# fxlens: Unrolled() <- torch.randn(2, 7, 16)
class Unrolled(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], x.shape[2])
        outputs = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            outputs.append(state)
        return torch.stack(outputs, dim=1)


# fxlens: Attention() <- torch.randn(2, 10, 32)
class Attention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, *rest = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        half = int(x.shape[-1] / 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(x.shape[-1])
        mixed = scores.softmax(dim=-1) @ v
        mixed = torch.cat(list(mixed.chunk(2, 1)), dim=1)
        mixed = mixed.view(*x.shape[:2], -1)
        return self.out(mixed)[..., :half]


# fxlens: Pyramid() <- torch.randn(1, 3, 20, 20)
class Pyramid(nn.Module):
    """Pads to a multiple of eight, level by level."""

    def forward(self, x):
        rows, extra = divmod(x.shape[2], 8)
        for level in range(x.shape[2] // 8):
            x = x + level
        return x * rows + extra
