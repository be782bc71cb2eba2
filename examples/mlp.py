"""A multi-layer perceptron with batch norm and dropout, for flattened 28x28 images: (N, 784) -> (N, 10)."""

from itertools import pairwise

import torch
from torch import nn


# fxlens: Mlp() <- torch.randn(8, 784)
class Mlp(nn.Module):
    def __init__(self, features: int = 784, hidden: tuple[int, ...] = (1024, 1024, 512), num_classes: int = 10):
        super().__init__()
        widths = (features, *hidden)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in hidden)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(widths[-1], num_classes)

    def forward(self, x):
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = self.dropout(torch.relu(norm(linear(x))))
        return self.classifier(x)
