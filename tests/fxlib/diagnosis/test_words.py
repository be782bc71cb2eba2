"""The exact texts of findings. Tests of the rules' examples assert that all texts are plain."""

from __future__ import annotations

import pytest

from fxlib.diagnosis import RULES

from .snippets import diagnose
from .words import RIDDLES

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3)]

    def forward(self, x, mask=None):
"""
SAID = {
    "if x.sum() > 0:\n    x = x + 1\nreturn x": (
        "This `if` needs a tensor's value, which tracing does not have: `x.sum() > 0`. The result "
        "depends on tensor values, so tracing cannot choose a branch"
    ),
    "if mask is not None:\n    x = x * mask\nreturn x": (
        "`mask` defaults to None, but tracing passes a Proxy, so this branch is always recorded"
    ),
    "if mask is None:\n    return x\nreturn x * mask": (
        "`mask` defaults to None, but tracing passes a Proxy, so this branch is never recorded"
    ),
    "return x * (mask is None)": (
        "`mask` defaults to None, but tracing passes a Proxy, so `mask is None` is always False"
    ),
    "return x + torch.zeros(x.shape[0], 3)": (
        "`torch.zeros` cannot take traced sizes as separate arguments; pass a tuple"
    ),
    "return x + torch.arange(x.shape[1])": "",
    "layer = {0: nn.ReLU()}[0]\nreturn layer(x)": (
        "This layer is not registered: no module has it as an attribute. Create it in `__init__`"
    ),
    "return x + np.sqrt(x)": (
        "NumPy cannot convert a traced value: `np.sqrt(x)`. Use the torch function of the same name"
    ),
    "return self.layers[0](x)": (
        "This layer is not registered: it is in a plain list. Make `self.layers` an nn.ModuleList"
    ),
    "self.last = x\nreturn x + 1": ("After tracing, `self.last` holds a Proxy instead of a tensor"),
    "return x * int(x.sum())": (
        "`int()` cannot convert a traced value: `int(x.sum())`. Use `//` for sizes, or convert in a wrapped function"
    ),
    "x = F.relu(x)\nreturn F.dropout(x, 0.5, self.training)": (
        "`self.training` is read only while tracing, so the graph always behaves as in training mode"
    ),
}


@pytest.mark.parametrize("body", SAID)
def test_what_is_said(body, tmp_path):
    text = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    found = diagnose(text, tmp_path)
    assert [finding.message for finding in found] == [SAID[body]] * bool(SAID[body])


def test_where_the_graphs_of_the_two_modes_differ(tmp_path):
    text = HEAD + "        x = F.relu(x)\n        return F.dropout(x, 0.5, self.training)\n"
    (finding,) = diagnose(text, tmp_path)
    (note,) = finding.related
    assert note.message == "In eval mode the graph first differs at line 14 (`F.dropout`)" and note.span.line == 14


def test_no_page_of_a_rule_is_a_riddle():
    assert [code for code, rule in RULES.items() if RIDDLES.search(rule.explanation)] == []
