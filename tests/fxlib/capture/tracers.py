"""A tracer of each library, made the same way, and what both do with a program."""

import torch
import torch.fx
import torch.nn as nn
from programs import LIBRARIES, describe, plain


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x):
        return self.act(self.linear(x)) * self.scale + self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.blocks(x)))


def both(make_tracer, root, concrete_args=None):
    """What both libraries' tracers, made by ``make_tracer(library)``, do with ``root``: graph, code, tracer's notes."""
    results = []
    for library in LIBRARIES.values():
        tracer = make_tracer(library)
        try:
            graph = tracer.trace(root, concrete_args)
        except Exception as error:
            results.append((type(error).__name__, plain(str(error)).splitlines()[0]))
        else:
            results.append((describe(graph), plain(graph.python_code("self").src), getattr(tracer, "notes", None)))
    theirs, ours = results
    assert ours == theirs
    return ours


def names(result):
    return [row[1] for row in result[0]]
