"""ResNet-50 for ImageNet (He et al., 2015, "Deep Residual Learning for Image Recognition").

The v1.5 form: the stride sits on the 3x3 convolution of a bottleneck. Input (N, 3, H, W), output (N, classes).
"""

import torch
from torch import nn


def conv1x1(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=1, stride=stride, bias=False)


def conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False)


# fxlens: Bottleneck(256, 64) <- torch.randn(1, 256, 56, 56)
class Bottleneck(nn.Module):
    """1x1 reduce, 3x3, 1x1 expand, and the shortcut."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int = 1):
        super().__init__()
        channels_out = width * self.expansion
        self.conv1 = conv1x1(channels_in, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv3x3(width, width, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv1x1(width, channels_out)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(conv1x1(channels_in, channels_out, stride), nn.BatchNorm2d(channels_out))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += shortcut
        return self.relu(out)


# fxlens: ResNet50() <- torch.randn(1, 3, 224, 224)
class ResNet50(nn.Module):
    def __init__(self, num_classes: int = 1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(64, 64, blocks=3, stride=1)
        self.layer2 = self._stage(256, 128, blocks=4, stride=2)
        self.layer3 = self._stage(512, 256, blocks=6, stride=2)
        self.layer4 = self._stage(1024, 512, blocks=3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, num_classes)

    @staticmethod
    def _stage(channels_in: int, width: int, blocks: int, stride: int) -> nn.Sequential:
        channels_out = width * Bottleneck.expansion
        first = Bottleneck(channels_in, width, stride)
        return nn.Sequential(first, *(Bottleneck(channels_out, width) for _ in range(blocks - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)
