"""Traces in several threads."""

import threading

import torch
from torch import nn

import fxlib


class Waiting(nn.Module):
    """Its trace ends only when ``until`` is set, or after a while."""

    def __init__(self, begun, until):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.begun, self.until = begun, until

    def forward(self, x):
        self.begun.set()
        self.until.wait(0.2)
        return self.layer(x)


def test_overlapping_traces_leave_modules_as_they_were():
    first, second, never = threading.Event(), threading.Event(), threading.Event()
    graphs = []

    def trace(model):
        graphs.append(fxlib.symbolic_trace(model))

    # The first would end while the second is under way.
    threads = [
        threading.Thread(target=trace, args=(Waiting(*events),)) for events in ((first, second), (second, never))
    ]
    threads[0].start()
    assert first.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert [len(each.graph.nodes) for each in graphs] == [3, 3]
    x = torch.ones(1, 4)
    assert nn.Linear(4, 4)(x).shape == (1, 4) and len(fxlib.symbolic_trace(nn.ReLU()).graph.nodes) == 3
