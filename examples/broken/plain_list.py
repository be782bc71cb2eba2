"""Layers in a plain Python list are no submodules: no parameters, no device moves, and no trace."""

import torch
from torch import nn


# fxlens: Stack() <- torch.randn(2, 16)
class Stack(nn.Module):
    def __init__(self, width: int = 16, depth: int = 3):
        super().__init__()
        self.layers = [nn.Linear(width, width) for _ in range(depth)]
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.norm(x)
