"""Ways of deciding by values. Each class has its example inputs as `inputs`."""

import torch
from torch import nn


def positive(x):
    return x.mean() > 0


def adjust(x):
    if positive(x):
        return x * 2
    return x


class Branch(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class Elif(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x * 2
        if x.sum() > 100:
            x = x + 1
        elif x.max() > 1 and x.min() > 0:
            x = x + 2
        return x


class Ternary(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        scale = 2.0 if x.abs().max() > 0.5 else 1.0
        return x * scale


class While(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        while x.norm() < 10:
            x = x * 2 + 1
        return x


class Assert(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        assert torch.isfinite(x).all(), "the input is not finite"
        return x * 2


class AssertShape(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        assert x.shape[1] == 3, f"three features, not {x.shape[1]}"
        return x * 2


class ViaHelpers(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = adjust(x + 1)
        return x.relu()


class InLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.norm() < 1e-3:
                break
        print(x.shape)
        return x


class InWith(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().max()
            if scale == 0:
                scale = scale + 1
        return x / scale


class EarlyReturn(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)
        self.gate = nn.Linear(3, 1)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        confidence = torch.sigmoid(self.gate(x)).mean()
        if confidence > 2:
            return x[:, :2]
        return self.head(x)


class PythonMax(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return x * max(x.mean(), x.std())


class PythonAny(nn.Module):
    def inputs():
        return (torch.ones(3),)

    def forward(self, x):
        if any(v > 0 for v in x):
            return x + 1
        return x


class Walrus(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if (total := x.sum()) > 3:
            x = x / total
        return x


class Twice(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        y = x.exp() if x.max() < 5 else x
        return y.sum()


class Closure(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        limit = x.mean()

        def clip(value):
            if value.max() > limit:
                return value.clamp(max=1.0)
            return value

        return clip(x)


class Comprehension(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        rows = [row for row in x if row.sum() > 0]
        return torch.stack(rows)


class Flag(nn.Module):
    def __init__(self):
        super().__init__()
        self.double = True

    def inputs():
        return (torch.ones(2, 3), None)

    def forward(self, x, mask):
        if self.double:
            x = x * 2
        if mask is not None:
            x = x * mask
        if x.dim() == 2 and x.shape[0] < 10:
            x = x.unsqueeze(0)
        return x


class WhereInstead(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return torch.where(x.sum() > 0, x + 1, x - 1)


class Cond(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        def more(x):
            return x + 1

        def less(x):
            return x - 1

        return torch.cond(x.sum() > 0, more, less, (x,))


class AfterLoop(nn.Module):
    """The loop keeps Dynamo from the rest of forward."""

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        for _ in range(2):
            x = x + 1
            print("step")
        if x.sum() > 0:
            x = x * 2
        return x.tolist()[0][0] + x


class Match(nn.Module):
    def inputs():
        return (torch.ones(2, 3), "sum")

    def forward(self, x, how):
        match how:
            case "sum":
                return x.sum(1)
            case "mean":
                return x.mean(1)
        return x
