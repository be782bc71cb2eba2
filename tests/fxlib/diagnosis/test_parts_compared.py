"""Which classes are run beside their graphs, where they are also parts of a model that has been."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch

from fxlib.diagnosis.comparison.of_example import Comparing
from fxlib.diagnosis.comparison.parts import kind_of
from fxlib.diagnosis.comparison.sides import Tracing
from fxlib.diagnosis.fixes.example import nothing

from .snippets import load

USUAL = Tracing()
HEAD = """
import contextvars, operator
import torch
from torch import nn

CALLS = contextvars.ContextVar("calls", default=0)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        CALLS.set(CALLS.get() + 1)
        {part}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        {whole}
"""
# What the part returns, and what the whole uses of it.
HIDDEN = {
    "an output left out": ("return self.net(x), x * CALLS.get()", "return self.part(x)[0]"),
    "one of a dictionary": ("return {'y': self.net(x), 'n': x * CALLS.get()}", "return self.part(x)['y']"),
    "all left out": ("return x * CALLS.get()", "self.part(x)\n        return x"),
    "a comparison": ("return x.abs() * CALLS.get()", "return self.part(x) > -1"),
    "a number left out": ("return x, CALLS.get()", "return self.part(x)[0]"),
    "a part that is called by its forward": (
        "return self.net(x), x * CALLS.get()",
        "return self.part.forward(x)[0]",
    ),
    "gradients of an output left out": (
        "for p in self.net.parameters():\n            setattr(p, 'requires_grad', False)\n        y = self.net(x)\n"
        "        for p in self.net.parameters():\n            setattr(p, 'requires_grad', True)\n"
        "        return self.net(x), y",
        "return self.part(x)[0]",
    ),
    "a part that is not called": ("return x * CALLS.get()", "return x"),
}
SEEN = {
    "one output": ("return self.net(x)", "return self.part(x) * 2"),
    "one output of which an item is used": ("return self.net(x)", "return self.part(x)[:, 0]"),
    "an output left out": ("return self.net(x), x.softmax(-1), None", "return self.part(x)[0]"),
    "a dictionary": ("return {'y': self.net(x), 'n': (1, 'a')}", "return self.part(x)['y']"),
    "gradients that are left out": ("return self.net(x), self.net(x).detach()", "return self.part(x)[0]"),
    "weights": ("return self.net(x), self.net.weight", "return self.part(x)[0]"),
    "several calls": ("return self.net(x), x * 2", "return self.part(self.part(x)[0])[1]"),
    "an output that is changed": ("return x * 2", "y = self.part(x)\n        y += 1\n        return y"),
    "an output that is changed in the graph too": ("return x * 2", "return self.part(x).relu_()"),
}


def compared(folder: Path, part: str, whole: str, tracing: Tracing = USUAL) -> tuple[list[str], bool]:
    """The classes with a finding, and whether the part was not run alone."""
    text = HEAD.replace("{part}", part).replace("{whole}", whole)
    namespace = vars(load(text, folder))

    @contextlib.contextmanager
    def loaded():
        yield vars(load(text, folder))

    comparing = Comparing(namespace, loaded, tracing, nothing, 10_000)
    found = []
    for name in ("Whole", "Part"):
        known = kind_of(namespace["Part"]()) in comparing._known[True]
        if comparing.compare(f"{name}()", "torch.randn(4, 4)", training=True) is not None:
            found.append(name)
    return found, known


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_model_does_not_use_of_its_part_is_found_in_the_part(name: str, tmp_path: Path):
    assert compared(tmp_path, *HIDDEN[name]) == (["Part"], False)


@pytest.mark.parametrize("name", SEEN)
def test_a_part_that_gave_the_same_is_not_run_again(name: str, tmp_path: Path):
    assert compared(tmp_path, *SEEN[name]) == ([], True)


def test_a_tracer_of_torch_fx_and_parts_that_are_leaves(tmp_path: Path):
    foreign = Tracing(tracer=torch.fx.Tracer)
    assert compared(tmp_path, *SEEN["an output left out"], foreign) == ([], True)
    assert compared(tmp_path, *HIDDEN["an output left out"], foreign) == (["Part"], False)
    assert compared(tmp_path, *HIDDEN["an output left out"], Tracing(leaves=frozenset({"part"}))) == (["Part"], False)


def test_a_size_that_nobody_uses_is_no_node_of_the_graph(tmp_path: Path):
    """Its part is run alone."""
    assert compared(tmp_path, "return self.net(x), x.shape", "return self.part(x)[0]") == ([], False)


CHANGED = {
    "another attribute": "self.part = Part(); self.part.flag = True",
    "another mode": "self.part = Part().eval()",
    "another layer": "self.part = Part(); self.part.net = nn.Identity()",
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_part_that_is_not_like_the_example_of_its_class_proves_nothing(name: str, tmp_path: Path, monkeypatch):
    assert "self.part = Part()" in HEAD
    monkeypatch.setitem(globals(), "HEAD", HEAD.replace("self.part = Part()", CHANGED[name]))
    assert compared(tmp_path, "return self.net(x), x.softmax(-1), None", "return self.part(x)[0]") == ([], False)


def test_what_differs_in_the_whole_too_is_found_there_first(tmp_path: Path):
    found, known = compared(tmp_path, "return x * CALLS.get()", "return self.part(x)")
    assert found[0] == "Whole" and not known
    assert torch.nn.modules.module._global_forward_hooks == {}
