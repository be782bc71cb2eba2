"""Texts of files with models, and random edits of them."""

from __future__ import annotations

import random

TEXT = '''"""A file with a bit of everything."""

import functools
import math

import torch
from torch import nn

SCALE = 2


def helper(x, factor=SCALE):
    """Scales."""
    return x * factor


def noted(function):
    @functools.wraps(function)
    def around(*args):
        return function(*args)

    return around


@noted
def wrapped(x):
    return x - 1


class Base(nn.Module):
    width = 4

    def __init__(self, width=None):
        super().__init__()
        self.width = width or self.width
        self.layers = self.make(2)

    def make(self, count):
        return nn.Sequential(*[nn.Linear(self.width, self.width) for _ in range(count)])

    def scaled(self, x):
        parts = [helper(each) for each in (x, x)]
        return sum(parts[1:], parts[0])

    @staticmethod
    def shift(x):
        return x + math.pi

    def forward(self, x):
        x = self.layers(x)
        return self.shift(self.scaled(x))


# fxlens: Net() <- torch.randn(2, 4)
class Net(Base):
    def __init__(self):
        super().__init__(4)
        self.act = lambda x: torch.relu(x)
        self.gate = nn.Parameter(torch.ones(4))

    def forward(self, x, flag: bool = False):
        if x.sum() > 0:
            x = x * 2
        y = super().forward(x)
        if flag:
            y = y + self.gate
        return wrapped(self.act(y))


class Pair(nn.Module):
    def __init__(self, one: nn.Module, other: nn.Module):
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x):
        return self.one(x) + len(x) * self.other(x)


def main():
    print(Pair(Net(), Base(4))(torch.randn(2, 4)))


if __name__ == "__main__":
    main()
'''
NOTHING_SAID = """import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.weight


class Feed(nn.Module):
    def __init__(self, dim, hidden=8):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def grown(self, x):
        return torch.relu(self.up(x))

    def forward(self, x):
        return self.down(self.grown(x))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.feed = Norm(dim), Feed(dim)

    def forward(self, x):
        if x.shape[0] > 1:
            x = x + 1
        return x + self.feed(self.norm(x))


class Tower(nn.Module):
    def __init__(self, dim=4, depth=2):
        super().__init__()
        self.first = nn.Linear(3, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


class Alone(nn.Module):
    def __init__(self, width, *, scale):
        super().__init__()
        self.norm, self.scale = Norm(width), scale

    def forward(self, x, mask):
        return self.norm(x) * self.scale + mask
"""
SPREAD = '''"""Its statements take several lines, and its findings say on which ones."""

import torch
import torch.nn.functional as F
from torch import nn

TABLE = {
    "wide": 8,  # of the hidden layer

    "deep": 2,
}


class Gate(nn.Module):
    """Text with
    # what looks like a comment

    and a blank line."""

    def forward(self, x, mask=None):
        # A comment of its own.
        if mask is not None:
            x = x * mask

        return torch.cat(
            [
                x,
                # the other half

                -x,
            ],
            dim=-1,
        )


# fxlens: <- torch.randn(2, 4)

class Spread(nn.Module):

    def __init__(
        self,
        width=4,
    ):
        super().__init__()
        self.first = nn.Linear(width, TABLE["wide"])
        self.gate = Gate()
        self.blocks = nn.ModuleList(
            nn.Linear(16, 16)
            for _ in range(TABLE["deep"])
        )

    def masked(self, x):
        mask = x > 0

        # Twice, so that there is something to lift.
        if mask.any():
            x = x.clone()
            # in place
            x[mask] = 0.0
        return x

    def forward(self, x):
        x = self.gate(self.first(x))
        if self.training:
            x = F.dropout(
                x, 0.5,
                training=self.training,
            )

        for block in self.blocks:
            x = F.relu(block(x))
        if x.sum() > 0 \\
                and len(x) > 1:
            x = x + int(
                x.mean())
        return self.masked(x)
'''
STATEMENTS = [
    "x = x + 1", "if x.sum() > 1:\n    x = -x", "x = x.view(-1, 4)", "n = len(x)", "x = torch.cat([x, x])",
    "x = [each * 2 for each in (x, x)][0]", "x = helper(x, 3)", "x = (lambda a: a * 2)(x)", "print(x)",
    "assert x.shape[0] > 0", '"""A docstring."""', "# a comment", "", "for _ in range(int(x.mean())):\n    pass",
    "def inner(a):\n    return a + SCALE\nx = inner(x)", "x = x + undefined", "global SCALE\nSCALE = 3", "1 +",
    "self.count = getattr(self, 'count', 0) + 1", "x = self.layers(x)", "import numpy as np\nx = x * np.pi",
]  # fmt: skip
TOP = ["# a comment", "", "SCALE = 3", "EXTRA = [1, 2]", "def other(x):\n    return x", "import re", "Base.width = 8"]


def edited(text: str, dice: random.Random) -> str:
    """The text after one random edit of a person's kind, or two at once."""
    text = _edited(text, dice)
    return _edited(text, dice) if dice.random() < 0.1 else text


def _edited(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    kind = dice.random()
    if kind < 0.15:
        _at_border(lines, dice)
        return "\n".join(lines)
    kind = dice.random()
    at = dice.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    if kind < 0.55:
        if len(indent) >= 8 or (len(indent) == 4 and dice.random() < 0.2):
            new = dice.choice(STATEMENTS)
        else:
            indent, new = "", dice.choice(TOP) if dice.random() < 0.3 else "# a comment"
        lines[at:at] = [indent + line if line else "" for line in new.split("\n")]
    elif kind < 0.62:
        del lines[at]
    elif kind < 0.82:
        _move(lines, at, indent, dice)
    elif kind < 0.91:
        lines[at] = lines[at].replace("x", "x.float()", 1) if dice.random() < 0.5 else lines[at] + "  # said"
    else:
        changes = [
            ("4", "6"),
            ("* 2", "* 3.0"),
            ("True", "1"),
            ("self.shift", "helper"),
            ("relu", "sigmoid"),
            ("+", "-"),
        ]
        old, new = dice.choice(changes)
        lines[at] = lines[at].replace(old, new)
    return "\n".join(lines)


def _at_border(lines: list[str], dice: random.Random) -> None:
    """An edit at the begin or the end of a function, or of how far a line is indented."""
    begins = [number for number, line in enumerate(lines) if line.lstrip().startswith("def ")] or [0]
    at = dice.choice(begins)
    while (after := dice.random() < 0.5) and at + 1 < len(lines) and lines[at + 1][:1] in ("", " "):
        at += 1  # towards the end
    line = lines[at]
    indent = line[: len(line) - len(line.lstrip())]
    kind = dice.randrange(5)
    if kind == 0:
        lines[at + after : at + after] = [indent + dice.choice(("# at the border", "    x = x + 1", "    pass", ""))]
    elif kind == 1:
        lines[at:at] = [indent + dice.choice(("@torch.no_grad()", "@staticmethod", "@noted"))]
    elif kind == 2:
        lines[at] = f"    {line}" if dice.random() < 0.5 else line.removeprefix("    ")
    elif kind == 3:
        lines[at + 1 : at + 1] = [f"{indent}    {each}" for each in ('"""Text', "# that is no comment", '"""')]
    else:
        lines[at] += dice.choice(("  # said", ";", " \\", "  # type: ignore"))


def _move(lines: list[str], at: int, indent: str, dice: random.Random) -> None:
    """An edit that does little more than to move lines."""
    kind = dice.randrange(6)
    if kind == 0:
        lines[at:at] = [""] * dice.randint(1, 3)
    elif kind == 1:
        lines[at:at] = [indent + dice.choice(("# said", "# net.py", "    # deeper"))]
    elif kind == 2:
        lines[at:at] = [lines[at]]
    elif kind == 3:  # Enter behind a bracket
        before, bracket, after = lines[at].partition("(")
        lines[at : at + 1] = [before + bracket, f"{indent}    {after}"] if bracket else [lines[at], indent]
    elif kind == 4:
        spaces = [number for number, line in enumerate(lines) if not line.strip() or line.lstrip().startswith("#")]
        del lines[dice.choice(spaces)]
    else:
        lines[:0] = ["# above it all"] * dice.randint(1, 3)
