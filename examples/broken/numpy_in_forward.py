"""NumPy inside forward: it needs numbers, which a traced value does not have."""

import numpy as np
import torch
from torch import nn


# fxlens: Spectrum() <- torch.randn(2, 64)
class Spectrum(nn.Module):
    def __init__(self, bins: int = 64):
        super().__init__()
        self.register_buffer("window", torch.hann_window(bins))

    def forward(self, signal):
        windowed = signal * self.window
        energy = np.sqrt(windowed.pow(2).sum(-1))
        return torch.log1p(energy)


# fxlens: PositionEncoding() <- torch.randn(2, 10, 8)
class PositionEncoding(nn.Module):
    def forward(self, x):
        frequencies = np.exp(np.arange(0, 8, 2) * -(np.log(10000.0) / 8))
        angles = torch.arange(10).unsqueeze(1) * torch.tensor(frequencies, dtype=torch.float32)
        table = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return x * np.float32(0.5) + table
