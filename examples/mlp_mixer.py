"""MLP-Mixer B/16 (Tolstikhin et al., 2021, "MLP-Mixer: An all-MLP Architecture for Vision").

Input (N, 3, size, size), output (N, classes).
"""

import torch.nn.functional as F
from torch import nn


# fxlens: Mlp(768, 3072) <- torch.randn(1, 196, 768)
class Mlp(nn.Module):
    def __init__(self, width: int, inner: int):
        super().__init__()
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


# fxlens: MixerBlock(196, 768, 384, 3072) <- torch.randn(1, 196, 768)
class MixerBlock(nn.Module):
    """Mixes over the tokens, then over the channels: (N, tokens, width) -> (N, tokens, width)."""

    def __init__(self, tokens: int, width: int, token_inner: int, channel_inner: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.token_mixing = Mlp(tokens, token_inner)
        self.norm2 = nn.LayerNorm(width)
        self.channel_mixing = Mlp(width, channel_inner)

    def forward(self, x):
        mixed = self.token_mixing(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + mixed
        return x + self.channel_mixing(self.norm2(x))


# fxlens: MlpMixer() <- torch.randn(1, 3, 224, 224)
class MlpMixer(nn.Module):
    def __init__(self, size: int = 224, patch: int = 16, width: int = 768, blocks: int = 12, num_classes: int = 1000):
        super().__init__()
        tokens = (size // patch) ** 2
        self.stem = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width, width // 2, width * 4) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(x))
        return self.head(x.mean(dim=1))
