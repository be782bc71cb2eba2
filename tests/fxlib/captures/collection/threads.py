"""What users ask about in public threads, each as a small model of its kind."""

import collections.abc
import contextlib
import enum
import functools
import itertools

import torch
from torch import nn

depth = 0


class Filtered(nn.Module):
    def inputs():
        return ([torch.ones(2, 3), torch.ones(2, 3)],)

    def forward(self, xs):
        out = xs[0]
        for each in filter(lambda value: not value.requires_grad, xs):
            out = out * each
        return out + 2


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class OwnGradient(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return Scaled.apply(x, 2.0) + 1


@contextlib.contextmanager
def deeper():
    global depth
    depth += 1
    try:
        yield
    finally:
        depth -= 1


class CountingContext(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with deeper():
            x = x + depth
        return x * 2


class ContextAcrossBreak(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        context = torch.set_grad_enabled(True)
        torch._dynamo.graph_break()
        with context:
            x = x + 1
        return x * 2


class BreakInFinally(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        try:
            x = x + 1
        finally:
            print("done")
        return x * 2


class Noting:
    def __init__(self, value):
        print("entering", value)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class ContextThatPrints(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x + 1
        with Noting("block"):
            x = x * 2
        return x - 1


class LargestOfTwoSizes(nn.Module):
    def inputs():
        return (torch.tensor([1, 0, 2]), torch.tensor([0, 3, 4]))

    def forward(self, x, y):
        a, b = x.nonzero(), y.nonzero()
        return torch.zeros(max(a.shape[0], b.shape[0])) + 1


class LengthMask(nn.Module):
    def inputs():
        return (torch.tensor([2, 5]),)

    def forward(self, lengths):
        steps = torch.arange(int(lengths.max()))
        return steps[None] < lengths[:, None]


class SliceToItem(nn.Module):
    def inputs():
        return (torch.ones(6, 3), torch.tensor(4))

    def forward(self, x, n):
        return x[: n.item()] * 2


class NormOfChosen(nn.Module):
    def inputs():
        return (torch.arange(6.0).reshape(2, 3),)

    def forward(self, x):
        return torch.linalg.vector_norm(x[x > 1]) + 1


class CountOfMask(nn.Module):
    def inputs():
        return (torch.arange(6.0).reshape(2, 3), torch.ones(6))

    def forward(self, x, features):
        mask = x >= 0
        if mask.sum() != features.numel():
            raise ValueError("as many features as places")
        return x.masked_scatter(mask, features)


class ConvolutionOfUnknownLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(1, 2, 3, padding=1)

    def inputs():
        return (torch.tensor([2, 3]),)

    def forward(self, durations):
        spread = torch.repeat_interleave(torch.ones(2), durations)
        return self.layer(spread[None, None])


class OfAbstractClass(nn.Module):
    def inputs():
        return (torch.ones(2, 3), [1, 2])

    def forward(self, x, sizes):
        if isinstance(sizes, collections.abc.Sequence):
            x = x * len(sizes)
        return x + 1


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class ModeByName(nn.Module):
    def inputs():
        return (torch.ones(2, 3), "mean")

    def forward(self, x, mode):
        return x.mean(-1) if Mode(mode) is Mode.MEAN else x.sum(-1)


class Remembered(nn.Module):
    def inputs():
        return (torch.ones(2, 4),)

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def table(self, length):
        return torch.arange(length) / length

    def forward(self, x):
        return x + self.table(x.shape[-1])


class Pairs(nn.Module):
    def inputs():
        return (torch.ones(4, 3),)

    def forward(self, x):
        rows = list(x.unbind(0))
        return torch.stack([a * b for a, b in itertools.combinations(rows, 2)])


class HookThatLooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.layer.register_forward_hook(lambda module, args, output: output.clamp(max=output.max().item()))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return self.layer(x) + 1
