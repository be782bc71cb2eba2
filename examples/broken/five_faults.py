"""A small detector head with five different faults; one run shows them all."""

import numpy as np
import torch
from torch import nn


# fxlens: Head() <- torch.randn(2, 16, 8, 8)
class Head(nn.Module):
    def __init__(self, channels: int = 16, anchors: int = 3):
        super().__init__()
        self.anchors = anchors
        self.conv = nn.Conv2d(channels, anchors * 5, 1)

    def forward(self, features):
        raw = self.conv(features)
        if raw.mean() > 0:
            raw = raw - raw.mean()
        batch = len(raw)
        grid = torch.zeros(raw.shape[2], raw.shape[3])
        boxes = raw.view(batch, self.anchors, 5, -1)
        boxes[:, :, 4] = boxes[:, :, 4].sigmoid()
        scale = np.sqrt(raw.shape[1])
        return boxes / scale + grid.sum()
