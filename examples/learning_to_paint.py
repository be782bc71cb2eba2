"""The actor of LearningToPaint (Huang et al., 2019, "Learning to Paint with Model-based Deep Reinforcement Learning").

A ResNet-18 without the usual stem. It sees canvas and target (3 channels each), the step number (1) and two channels of
coordinates (CoordConv), 128x128, and answers with five strokes of 13 parameters in [0, 1]: (N, 9, 128, 128) -> (N, 65).
"""

import torch
import torch.nn.functional as F
from torch import nn


def coordinates(size: int = 128) -> torch.Tensor:
    """The CoordConv channels, (1, 2, size, size), each running from 0 to 1 along one axis."""
    ramp = torch.arange(size, dtype=torch.float32) / (size - 1)
    rows = ramp.view(1, 1, size, 1).expand(1, 1, size, size)
    columns = ramp.view(1, 1, 1, size).expand(1, 1, size, size)
    return torch.cat([rows, columns], 1)


class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(channels),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


# fxlens: Actor() <- torch.rand(1, 9, 128, 128)
class Actor(nn.Module):
    def __init__(self, channels_in: int = 9, blocks: tuple[int, ...] = (2, 2, 2, 2), num_outputs: int = 65):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, 64, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = self._layer(64, 64, blocks[0])
        self.layer2 = self._layer(64, 128, blocks[1])
        self.layer3 = self._layer(128, 256, blocks[2])
        self.layer4 = self._layer(256, 512, blocks[3])
        self.fc = nn.Linear(512, num_outputs)

    @staticmethod
    def _layer(channels_in: int, channels: int, blocks: int) -> nn.Sequential:
        first = BasicBlock(channels_in, channels, stride=2)
        return nn.Sequential(first, *(BasicBlock(channels, channels) for _ in range(blocks - 1)))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = F.avg_pool2d(x, 4)
        x = x.view(x.size(0), -1)
        return torch.sigmoid(self.fc(x))


# fxlens: Painter() <- torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128), torch.rand(1, 1, 128, 128)
class Painter(nn.Module):
    """The actor with its state put together from canvas, target and step number."""

    def __init__(self, size: int = 128):
        super().__init__()
        self.actor = Actor()
        self.register_buffer("coord", coordinates(size))

    def forward(self, canvas, target, step):
        coord = torch.ones_like(step) * self.coord
        return self.actor(torch.cat([canvas, target, step, coord], 1))
