"""Python itself: exceptions, contexts, containers, classes, imports, generators."""

import collections
import contextlib
import dataclasses
import functools
from typing import NamedTuple

import torch
from torch import nn


class Pair(NamedTuple):
    mean: torch.Tensor
    deviation: torch.Tensor


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    scale: float


class Sample:
    def __init__(self, image):
        self.image = image


@contextlib.contextmanager
def section(name):
    yield name


class Timer:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


@functools.lru_cache
def frequencies(size):
    return torch.arange(size).float()


def chunks(x):
    for part in x.split(1):
        yield part * 2


class TryExcept(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        try:
            return x.view(3, 2) + 1
        except RuntimeError:
            return x.reshape(-1)


class Raises(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        try:
            if x.sum() > 0:
                raise ValueError("positive")
        except ValueError:
            x = x - 1
        return x * 2


class MultiplyOrSkip(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        try:
            x = x @ torch.ones(4, 4)
        except RuntimeError:
            x = x * 2
        return x


class ImportInside(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        import colorsys
        from math import pi

        return x * pi + colorsys.ONE_THIRD


class ContextManager(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with section("first"):
            x = x + 1
        return x * 2


class ContextClass(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with Timer():
            x = x + 1
            print("inside")
            x = x * 2
        if x.sum() > 0:
            x = x + 1
        return x


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x).float()


class Profiled(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.profiler.record_function("block"):
            x = x + 1
        return x * 2


class Inference(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.inference_mode():
            return x + 1


class NoGrad(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    @torch.no_grad()
    def forward(self, x):
        return x * 2


class Generator(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return torch.cat(list(chunks(x)))


class Cached(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * frequencies(3)


class Partial(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        scale = functools.partial(torch.mul, x)
        return scale(2) + scale(other=3)


class NamedTupleOut(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return Pair(x.mean(), x.std())


class DataclassOut(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return Output(x * 2, 0.5)


class DataclassInside(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        output = Output(x * 2, 0.5)
        return output.hidden * output.scale


class ObjectIn(nn.Module):
    def inputs():
        return (Sample(torch.ones(2, 3)),)

    def forward(self, sample):
        return sample.image * 2


class ObjectInside(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        sample = Sample(x)
        sample.label = x.sum(1)
        return sample.image + sample.label[:, None]


class DictOut(nn.Module):
    def inputs():
        return ({"image": torch.ones(2, 3), "text": torch.ones(2)},)

    def forward(self, batch):
        return {"sum": batch["image"].sum(1) + batch["text"], "name": "x"}


class SetOfTensors(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        seen = {x}
        seen.add(x + 1)
        return sum(value.sum() for value in seen)


class Deque(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        window = collections.deque(maxlen=2)
        for step in range(3):
            window.append(x + step)
        return sum(window)


class ClassInside(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        class Scaler:
            factor = 2

        return x * Scaler.factor


class Recursion(nn.Module):
    def inputs():
        return (torch.ones(2, 3), 3)

    def forward(self, x, depth):
        return x if depth == 0 else self.forward(x + 1, depth - 1)


class SortedByValue(nn.Module):
    def inputs():
        return (torch.ones(3),)

    def forward(self, x):
        return torch.stack(sorted(x, key=lambda value: value.item()))


class Identity(nn.Module):
    def inputs():
        return (torch.ones(3), torch.ones(3))

    def forward(self, x, y):
        return x * 2 if id(x) == id(y) else x + y


class Evaluated(nn.Module):
    def inputs():
        return (torch.ones(3),)

    def forward(self, x):
        return eval("x * 2", {"x": x})


class StarArguments(nn.Module):
    def inputs():
        return (torch.ones(3), torch.ones(3))

    def forward(self, *xs, scale=2.0):
        return sum(xs) * scale


class SeveralLines(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        é = x + 1
        y = torch.where(é > 0, é, float(
            é.sum()
        ))
        if (
            y.sum() > 0
            and y.mean() > -100
        ):
            y = y * 2
        return y
