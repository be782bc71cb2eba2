"""What attributes hold: layers that forward makes on first use, and data that refers back to itself."""

from __future__ import annotations

import pytest
import torch

import fxlib
from fxlib.diagnosis.names import names_in

from .snippets import load

LAZY = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.pool = nn.ModuleDict()
        self.more = nn.ModuleList()

    def forward(self, x):
        {}
"""


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("if 'h' not in self.pool: self.pool['h'] = nn.Linear(4, 4)", "self.pool['h'](x)"),
        ("if not self.more: self.more.append(nn.Linear(4, 4))", "self.more[0](x)"),
        ("if not hasattr(self.fc, 'next'): self.fc.next = nn.ReLU()", "self.fc.next(x)"),
    ],
)
def test_a_layer_made_on_first_use_stays_a_finding_in_the_next_run(made: str, called: str, tmp_path):
    net = load(LAZY.format(f"{made}\n        return {called}"), tmp_path).Net()
    with pytest.raises(NameError, match="not installed as a submodule"):
        fxlib.symbolic_trace(load(LAZY.format(f"{made}\n        return {called}"), tmp_path).Net())
    assert fxlib.diagnose(net, torch.ones(2, 4)).codes() == ["FX170"]
    assert [*net.state_dict()] == ["fc.weight", "fc.bias"]


LOOPS = """\
import copy

import torch
from torch import nn

import fxlib

WHOLE = {"children": []}
WHOLE["children"].append(WHOLE)


@fxlib.wrap
def size(tree):
    return len(tree["children"])


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        root = {"scale": torch.ones(4), "children": []}
        root["children"] += [{"parent": root}, {"parent": root}]
        self.tree = root
        self.chain = None
        for index in range(2000):
            self.chain = [index, self.chain]
        self.layers = {"fc": nn.Linear(4, 4)}
        self.layers["self"] = self.layers
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x), self.tree, self.chain


class Net(Part):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        tree, layers = self.tree, self.layers
        y = self.fc(x)
        return
"""
# What forward does, and the codes of the findings.
DOES = {
    "y * len(tree['children']) * tree['scale']": "",
    "self.part(x)[0] * int(y.sum())": "FX130",
    "y * len(copy.copy(tree))": "",
    "y * size(tree)": "",
    "(tree.update(seen=True), y)[1]": "FX208",
    "(tree['children'][0].update(seen=y), y)[1]": "FX209",
    "(WHOLE.update(seen=y), y)[1]": "FX209",
    "layers['self']['fc'](x)": "FX170",
}


@pytest.mark.parametrize("does", DOES)
def test_data_may_refer_back_to_itself(does: str, tmp_path):
    module = load(LOOPS.removesuffix("\n") + f" {does}\n", tmp_path)
    assert " ".join(fxlib.diagnose(module.Net(), torch.ones(2, 4)).codes()) == DOES[does]
    assert names_in(module.Net(), torch.ones(2, 4))


def test_arguments_of_a_wrapped_function_may_refer_back_to_themselves():
    tree: dict[str, object] = {}
    tree["self"] = [tree]
    assert fxlib._symbolic_trace.find_proxy((tree,), {"a": tree}) is None


def test_a_layer_of_torchscript_can_be_asked_about(tmp_path):
    """Its tables of children, parameters and buffers cannot be iterated."""
    net = load(LAZY.format("return self.fc(x)"), tmp_path).Net()
    net.fc = torch.jit.script(net.fc)
    report = fxlib.diagnose(net, (torch.randn(2, 4),))
    assert report.findings == [] and not report.doubtful
