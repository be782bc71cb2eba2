"""Findings after an earlier one: results of lookups, code of unregistered modules, other branches."""

from __future__ import annotations

import textwrap

import pytest
import torch

import fxlib

from .snippets import diagnose, load

HELPERS = """\
import torch
import torch.nn.functional as F
from torch import nn


class Asks(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x  # FX101


class Counts(nn.Module):
    def __init__(self, size=3):
        super().__init__()
        self.fc = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x):
        x = self.fc(x) * self.scale
        return x * len(x)  # FX120


def counts(x):
    return x * len(x)  # FX120


"""
BOTH = "[Asks(), Counts()]"
CASES = {
    "modules of a list": ("[nn.Linear(3, 3), nn.Linear(3, 3)]", "self.kept[x.argmax()](x)", "FX134 FX170"),
    "modules of a tuple": ("(nn.Linear(3, 3),)", "self.kept[x.argmax().item()](x)", "FX134 FX170"),
    "modules of a dict": ("{0: nn.Linear(3, 3)}", "self.kept[x.argmax().item()](x)", "FX135 FX170"),
    "modules in lists in a list": ("[[nn.Linear(3, 3)]]", "self.kept[x.argmax()][0](x)", "FX134 FX170"),
    "slice of a list": ("[nn.Linear(3, 3)]", "[m(x) for m in self.kept[: x.argmax()]]", "FX134 FX170"),
    "ModuleList": (f"nn.ModuleList({BOTH})", "self.kept[x.argmax()](x)", "FX101 FX120 FX134"),
    "slice of a ModuleList": (f"nn.ModuleList({BOTH})", "[m(x) for m in self.kept[: x.argmax()]]", "FX101 FX120 FX134"),
    "Sequential": (f"nn.Sequential(*{BOTH})", "self.kept[x.argmax()](x)", "FX101 FX120 FX134"),
    "ModuleDict": (f"nn.ModuleDict(dict(zip('ab', {BOTH})))", "self.kept[x.argmax()](x)", "FX101 FX120 FX135"),
    "parameters of a list": ("[nn.Parameter(torch.ones(3))]", "self.kept[x.argmax()] * x", "FX134 FX171"),
    "functions of a list": ("[F.relu, counts]", "self.kept[x.argmax()](x)", "FX120 FX134"),
    "numbers of a list": ("[1.0, 2.0]", "x * self.kept[x.argmax()] * len(x)", "FX120 FX134"),
    "inside modules of a list": (BOTH, "self.kept[1](self.kept[0](x))", "FX101 FX120 FX170 FX170"),
    "inside a module made in forward": ("0", "Counts(x.shape[1])(x)", "FX120 FX160 FX170"),
    "a module of a size that only data tells": ("0", "nn.Dropout(x.mean())(x)", "FX160 FX170"),
    "weight of a module made in forward": ("0", "nn.Linear(x.shape[1], 3).weight + x[0]", "FX160 FX171"),
    "a module made in forward and moved": (
        "0",
        "nn.Conv1d(x.shape[1], 4, 1).to(x.device)(x[..., None])",
        "FX102 FX160 FX170 FX171",
    ),
    "the last of several operands": (
        "0",
        "x if x.sum() > 0 or x.mean() > 1 or len(x) > 9 else -x",
        "FX101 FX101 FX120",
    ),
}


def codes(kept: str, body: str, folder, inputs: str | None = "(torch.randn(2, 3),)") -> str:
    text = (
        f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.kept = {kept}\n\n"
        f"    def forward(self, x):\n{textwrap.indent(body, ' ' * 8)}\n"
    )
    return " ".join(sorted(diagnose(HELPERS + text, folder, inputs).codes()))


@pytest.mark.parametrize("name", CASES)
def test_a_finding_does_not_hide_what_comes_after(name, tmp_path):
    kept, expression, wanted = CASES[name]
    assert codes(kept, f"return {expression}", tmp_path) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("Counts(x.shape[1])(x)", "FX120 FX160 FX170"),
        ("nn.Sequential(nn.Linear(x.shape[1], 3), nn.ReLU())(x)", "FX160 FX170"),
        ("nn.Linear(x.shape[1], 3).weight + x", "FX160 FX171"),
    ],
)
def test_a_module_of_unknown_size_does_not_hide_that_it_is_unregistered(expression, wanted, tmp_path):
    assert codes("0", f"return {expression}", tmp_path, None) == wanted


def test_either_way_is_followed_past_all_its_faults(tmp_path):
    body = textwrap.dedent("""\
        if x.sum() > 0:
            a, b = int(x.mean()), float(x.mean())
        elif x.max() > 3:
            a = divmod(x.shape[0], 2)[0]
            b = float(x.sum())
        else:
            a = round(x.sum().item())
            b = len(x)
        return x * a * b""")
    assert codes("0", body, tmp_path) == "FX101 FX101 FX120 FX130 FX130 FX130 FX131 FX132"


def test_an_unregistered_module_is_left_as_it_was(tmp_path):
    module = load(
        "import torch\nfrom torch import nn\n\n\n"
        "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.seen = None\n\n"
        "    def forward(self, x):\n        self.seen = x\n        return x\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.blocks = {'a': [Block()]}\n\n"
        "    def forward(self, x):\n        return self.blocks['a'][0](x)\n",
        tmp_path,
    )
    net = module.Net()
    assert fxlib.diagnose(net, torch.ones(2)).codes() == ["FX209", "FX170"]
    assert net.blocks["a"][0].seen is None
