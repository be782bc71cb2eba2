"""What forward does beside computing: printing, logging, keeping state, reading the world."""

import copy
import logging
import os
import random
import time
import warnings

import torch
from torch import nn

logger = logging.getLogger(__name__)
calls = 0


class Print(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x + 1
        print("shape", x.shape)
        return x * 2


class Log(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x + 1
        logger.info("input %s", x.shape)
        return x * 2


class LogModule(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x + 1
        logging.debug("doubling")
        return x * 2


class Warn(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x + 1
        if x.shape[0] < 8:
            warnings.warn("a small batch")
        return x * 2


class Clock(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        start = time.perf_counter()
        x = x * 2
        self.taken = time.perf_counter() - start
        return x


class RandomNumber(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * random.random()


class RandomTensor(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x + torch.randn_like(x)


class Environment(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if os.environ.get("FAST_PATH") == "1":
            return x
        return x * 2


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.count += 1
        return x * 2


class CounterUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 1

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.count = self.count + 1
        return x * self.count


class GlobalCounter(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        global calls
        calls += 1
        return x * 2


class KeepsTensor(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.last = x * 2
        return self.last + 1


class KeepsList(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = []

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.features.append(x.mean(1))
        return x * 2


class BufferAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class BufferInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.steps.add_(1)
        return x / self.steps


class PlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.full((3,), 2.0)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * self.scale


class PlainTensorAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(3)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.state = self.state + x.mean(0)
        return x + self.state


class LazyMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def inputs():
        return (torch.ones(4, 4),)

    def forward(self, x):
        if self.mask is None or self.mask.shape[0] != x.shape[0]:
            self.mask = torch.tril(torch.ones(x.shape[0], x.shape[0]))
        return x * self.mask


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def inputs():
        return (torch.ones(4, 4),)

    def forward(self, x):
        key = x.shape[0]
        if key not in self.cache:
            self.cache[key] = torch.arange(key).float()
        return x + self.cache[key]


class InputWritten(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x.clamp_(max=0.5)
        x[0] = 0
        return x * 2


class InputReturned(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x, x.view(3, 2), x + 1


class DeepCopy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        other = copy.deepcopy(self.inner)
        return other(x)


class ParameterWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(0, 1)
        return x * self.weight


class DataAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        self.weight.data = self.weight.data / self.weight.data.norm()
        return x * self.weight


class MakesParameter(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        weight = nn.Parameter(torch.ones(3))
        return x * weight


class RequiresGrad(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        y = (x * 2).detach().requires_grad_()
        return y * 3


class Backward(nn.Module):
    def inputs():
        return (torch.ones(2, 3, requires_grad=True),)

    def forward(self, x):
        energy = (x**2).sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return energy, force


class Writes(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with open(os.devnull, "w") as file:
            file.write("x")
        return x * 2


class Training(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = self.norm(x)
        if self.training:
            x = nn.functional.dropout(x, 0.5)
        return x
