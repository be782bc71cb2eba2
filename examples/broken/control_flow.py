"""Python control flow that depends on tensors: an early-exit network with typical conditions."""

import torch
import torch.nn.functional as F
from torch import nn


class Exit(nn.Module):
    """A classifier attached to an intermediate stage."""

    def __init__(self, channels: int, num_classes: int):
        super().__init__()
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        return self.fc(x.mean(dim=(2, 3)))


# fxlens: EarlyExit() <- torch.randn(2, 3, 32, 32)
class EarlyExit(nn.Module):
    def __init__(self, num_classes: int = 10, threshold: float = 0.9):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.stage1 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.stage2 = nn.Conv2d(64, 128, 3, stride=2, padding=1)
        self.exit1 = Exit(64, num_classes)
        self.exit2 = Exit(128, num_classes)
        self.threshold = threshold

    def confident(self, logits):
        return F.softmax(logits, dim=-1).max() > self.threshold

    def forward(self, x):
        assert x.dim() == 4, "expected a batch of images"
        if x.shape[1] == 1:
            x = x.repeat(1, 3, 1, 1)
        x = self.stage1(F.relu(self.stem(x)))
        early = self.exit1(x)
        if not self.training and self.confident(early):
            return early
        late = self.exit2(self.stage2(F.relu(x)))
        while late.abs().max() > 100.0:
            late = late / 10.0
        return late if torch.isfinite(late).all() else early


# fxlens: Scale() <- torch.randn(4, 8)
class Scale(nn.Module):
    """An argument with a default is traced, too: `if normalize` needs its truth value."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x, normalize=True):
        if normalize:
            x = x - x.mean(dim=-1, keepdim=True)
        x = x * self.gain
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y
