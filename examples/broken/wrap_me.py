"""A classifier with a learned temperature. The helper looks at a value, so the trace stops inside it."""

import torch
from torch import nn


def sharpen(logits, temperature):
    """Divides by the temperature, but leaves confident rows alone."""
    if logits.max() > 10.0:
        return logits
    return logits / temperature


# fxlens: Classifier() <- torch.randn(4, 32)
class Classifier(nn.Module):
    def __init__(self, features: int = 32, num_classes: int = 10):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, num_classes))
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, x):
        logits = self.body(x)
        return torch.softmax(sharpen(logits, self.temperature), dim=-1)
