"""DeepRecommender (Kuchaiev and Ginsburg, 2017, "Training Deep AutoEncoders for Collaborative Filtering").

An autoencoder over one user's ratings of all items: n-512-512-1024-512-512-n with SELU. The default n is the number of
items of the Netflix set that the torch.fx paper quantizes. Input and output (N, items).
"""

from itertools import pairwise

import torch.nn.functional as F
from torch import nn


# fxlens: DeepRecommender() <- torch.randn(1, 197951)
class DeepRecommender(nn.Module):
    def __init__(self, items: int = 197951, hidden: tuple[int, ...] = (512, 512, 1024), dropout: float = 0.8):
        super().__init__()
        widths = (items, *hidden)
        self.encoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        back = widths[::-1]
        self.decoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(back))
        self.drop = nn.Dropout(dropout)

    def encode(self, ratings):
        for layer in self.encoder:
            ratings = F.selu(layer(ratings))
        return self.drop(ratings)

    def decode(self, code):
        for layer in self.decoder:
            code = F.selu(layer(code))
        return code

    def forward(self, ratings):
        return self.decode(self.encode(ratings))
