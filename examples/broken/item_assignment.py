"""Writing into tensors by index: masking, padding and scattering as it is usually typed."""

import torch
from torch import nn


# fxlens: MaskedPool() <- torch.randn(2, 5, 8), torch.ones(2, 5)
class MaskedPool(nn.Module):
    def forward(self, x, mask):
        x[mask == 0] = 0.0
        x[:, 0] = 0.0
        total = x.sum(1)
        return total / mask.sum(1, keepdim=True)


# fxlens: ShiftRight() <- torch.randint(0, 100, (2, 6))
class ShiftRight(nn.Module):
    """Decoder inputs: the labels moved by one, with a start token in front."""

    def __init__(self, start: int = 1, vocabulary: int = 100, width: int = 16):
        super().__init__()
        self.start = start
        self.embed = nn.Embedding(vocabulary, width)

    def forward(self, ids):
        shifted = torch.zeros_like(ids)
        shifted[:, 1:] = ids[:, :-1]
        shifted[:, 0] = self.start
        return self.embed(shifted)
