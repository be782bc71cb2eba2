"""Models that torch.fx traces without an error, into graphs that compute something else."""

import random

import torch
import torch.nn.functional as F
from torch import nn


# fxlens: NoisyGate() <- torch.randn(4, 16)
class NoisyGate(nn.Module):
    """Mixture-of-experts gate. The noise is drawn once, when the model is traced."""

    def __init__(self, width: int = 16, experts: int = 4):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.calls = 0

    def forward(self, x, mask=None):
        self.calls += 1
        logits = self.gate(x)
        noise = torch.randn(4, 4)
        if self.training:
            logits = logits + noise
        if mask is not None:
            logits = logits * mask
        logits = F.dropout(logits, 0.1, training=self.training)
        if random.random() < 0.5:
            logits = logits.flip(-1)
        return logits.softmax(dim=-1)


# fxlens: RunningMean() <- torch.randn(4, 16)
class RunningMean(nn.Module):
    """A statistic that is kept in a buffer: the update is not in the graph."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.last = None

    def forward(self, x):
        with torch.no_grad():
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.last = x
        try:
            scale = float(x.std())
        except TypeError:
            scale = 1.0
        return (x - self.mean) / scale
