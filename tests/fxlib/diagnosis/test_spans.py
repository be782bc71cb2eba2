"""The exact expression of every finding, on the line ``⟦expression⟧`` of a forward(self, x) with x of shape (2, 4)."""

from __future__ import annotations

import textwrap

import pytest

from .snippets import diagnose

HEAD = """\
import math
import numpy as np
import random
import torch
import torch.nn.functional as F
from torch import nn


def helper(a, *more, **named):
    return a


class Thing:
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.plain = [nn.Linear(4, 4)]
        self.register_buffer("table", torch.ones(8, 8))
        self.count = 0

    def forward(self, x, flag: bool = True, mode: str = "a", size: int = 3, mask=None):
"""

CASES = [
    # control flow in its forms
    ("FX101", "if ⟦x.sum() > 0⟧:\n    x = x + 1\nreturn x"),
    ("FX101", "while ⟦x.sum() > 0⟧:\n    x = x - 1\nreturn x"),
    ("FX101", "return x if ⟦x.sum() > 0⟧ else -x"),
    ("FX101", "y = ⟦x.any()⟧ and x\nreturn y"),
    ("FX101", "y = ⟦x.any()⟧ or x\nreturn y"),
    ("FX101", "y = not ⟦x.any()⟧\nreturn x"),
    ("FX101", "y = bool(x.any())\nreturn x", "bool(x.any())"),
    ("FX101", "if self.count or not ⟦x.any()⟧:\n    return x\nreturn x + 1"),
    ("FX101", "return torch.stack([x[i] for i in range(2) if ⟦x[i].sum() > 0⟧])"),
    ("FX102", "if ⟦x.shape[0] > 1⟧:\n    x = x + 1\nreturn x"),
    ("FX102", "if ⟦torch.is_floating_point(x)⟧:\n    x = x + 1\nreturn x"),
    ("FX102", "if ⟦x.dim() == 2⟧:\n    x = x + 1\nreturn x"),
    ("FX102", "if ⟦x.dtype == torch.float32⟧:\n    x = x + 1\nreturn x"),
    ("FX102", "if ⟦x.is_cuda⟧:\n    x = x + 1\nreturn x"),
    ("FX102", "if ⟦x.size(0) % 2⟧:\n    x = x + 1\nreturn x"),
    ("FX103", "if ⟦flag⟧:\n    x = x + 1\nreturn x"),
    ("FX103", "if ⟦mode == 'a'⟧:\n    x = x + 1\nreturn x"),
    ("FX103", "if ⟦size > 2⟧:\n    x = x + 1\nreturn x"),
    ("FX104", "assert ⟦x.shape[0] == 2⟧, 'two'\nreturn x"),
    ("FX104", "assert ⟦x.sum() > 0⟧\nreturn x"),
    ("FX105", "if ⟦x.shape[0] in (1, 2)⟧:\n    x = x + 1\nreturn x"),
    ("FX106", "return x[: ⟦max(x.shape[0], 1)⟧]"),
    ("FX107", "if ⟦0 < x.shape[0] < 4⟧:\n    x = x + 1\nreturn x"),
    ("FX107", "y = ⟦0 < x.shape[0] < 4⟧\nreturn x"),
    # iteration
    ("FX110", "for row in ⟦x⟧:\n    self.linear(row)\nreturn x"),
    ("FX110", "return torch.stack([row for row in ⟦x⟧])"),
    ("FX110", "return torch.stack(⟦list(x)⟧)"),
    ("FX110", "for i, row in ⟦enumerate(x)⟧:\n    self.linear(row)\nreturn x"),
    ("FX110", "for a, b in ⟦zip(x, x)⟧:\n    self.linear(a)\nreturn x"),
    ("FX110", "y = ⟦tuple(x.shape)⟧\nreturn x"),
    ("FX111", "b, *rest = ⟦x.shape⟧\nreturn x"),
    ("FX112", "return x.view(*⟦x.shape[:1]⟧, -1)"),
    ("FX112", "return helper(*⟦x⟧)"),
    ("FX113", "return helper(x, **⟦x⟧)"),
    ("FX114", "return x / ⟦sum(x.shape)⟧"),
    ("FX120", "return x / ⟦len(x)⟧"),
    ("FX121", "for row in ⟦reversed(x)⟧:\n    self.linear(row)\nreturn x"),
    ("FX122", "return x * ⟦torch.tensor(x.shape)⟧[0]"),
    ("FX122", "return x * ⟦torch.tensor([x.shape[0], 3])⟧[0]"),
    ("FX122", "return x.expand(⟦torch.Size([x.shape[0], 4])⟧)"),
    # numbers
    ("FX130", "n = ⟦int(x.shape[1] / 2)⟧\nreturn x[:, :n]"),
    ("FX130", "return x * ⟦float(x.shape[1])⟧"),
    ("FX131", "return x * ⟦round(x.shape[1] / 2)⟧"),
    ("FX132", "a, b = ⟦divmod(x.shape[1], 2)⟧\nreturn x * a"),
    ("FX133", "for i in ⟦range(x.shape[0])⟧:\n    self.linear(x[i])\nreturn x"),
    ("FX134", "return x * ⟦[1.0, 2.0, 3.0][x.shape[0]]⟧"),
    ("FX134", "return x + ⟦self.table[: x.shape[0], :4]⟧"),
    ("FX135", "return x * ⟦{2: 1.0}[x.shape[0]]⟧"),
    ("FX136", "s = ⟦'%d' % x.shape[0]⟧\nreturn x"),
    ("FX136", "s = ⟦f'{x.shape[0]:3d}'⟧\nreturn x"),
    # arrays, assignment, constructors
    ("FX140", "return x + ⟦np.sqrt(x)⟧"),
    ("FX140", "return ⟦torch.from_numpy(x)⟧"),
    ("FX141", "return ⟦torch.add(x, np.float32(1))⟧"),
    ("FX150", "⟦x[0]⟧ = 1\nreturn x"),
    ("FX150", "⟦x[:, 0]⟧ += 1\nreturn x"),
    ("FX151", "del ⟦x[0]⟧\nreturn x"),
    ("FX160", "return x + ⟦torch.zeros(x.shape[0], 4)⟧"),
    ("FX160", "return x + ⟦torch.BoolTensor(x.size())⟧.fill_(0)"),
    ("FX186", "return ⟦torch.autograd.Variable(x)⟧ * 2"),
    ("FX186", "return ⟦torch.nn.utils.rnn.pack_padded_sequence(x, x[:, 0])⟧.data"),
    ("FX188", "return ⟦torch.distributions.Categorical(logits=x)⟧.log_prob(x[:, 0])"),
    # arguments and modules
    ("FX170", "return ⟦self.plain[0](x)⟧"),
    ("FX170", "layer = nn.ReLU()\nreturn ⟦layer(x)⟧"),
    ("FX171", "return ⟦x * nn.Parameter(torch.ones(4))⟧"),
    ("FX175", "return ⟦x.foo({1, 2})⟧"),
    ("FX175", "return ⟦x.foo(Thing())⟧"),
    ("FX175", "return ⟦x.foo(helper)⟧"),
    ("FX175", "return ⟦x.foo(i for i in range(3))⟧"),
    ("FX182", "⟦torch._check(x.shape[0] > 1)⟧\nreturn x"),
    ("FX184", "with ⟦torch.autocast(x.device.type)⟧:\n    return x + 1"),
    # silent
    ("FX201", "if ⟦mask is None⟧:\n    return x\nreturn x + 1"),
    ("FX201", "if ⟦mask is not None⟧:\n    return x\nreturn x + 1"),
    ("FX202", "if ⟦isinstance(x, torch.Tensor)⟧:\n    return x\nreturn x + 1"),
    ("FX202", "if ⟦torch.is_tensor(x)⟧:\n    return x\nreturn x + 1"),
    ("FX202", "if ⟦type(x)⟧ is torch.Tensor:\n    return x\nreturn x + 1"),
    ("FX202", "return x * len(⟦x.__class__⟧.__name__)"),
    ("FX202", "match x:\n    case ⟦torch.Tensor()⟧:\n        return x\nreturn x + 1"),
    ("FX202", "match x, 1:\n    case (int() | ⟦torch.Tensor()⟧ as y, 1):\n        return y\nreturn x + 1"),
    ("FX201", "match mask:\n    case ⟦None⟧:\n        return x\nreturn x + 1"),
    ("FX203", "if ⟦hasattr(x, 'tensors')⟧:\n    return x\nreturn x + 1"),
    ("FX203", "if ⟦callable(x)⟧:\n    return x\nreturn x + 1"),
    ("FX203", "y = ⟦getattr(x, 'tensors', None)⟧\nreturn x + 1"),
    ("FX204", "if ⟦x.shape[0] in {1, 2}⟧:\n    return x\nreturn x + 1"),
    ("FX205", "s = ⟦f'{x.shape}'⟧\nreturn x + 1"),
    ("FX205", "s = ⟦str(x)⟧\nreturn x + 1"),
    ("FX205", "s = ⟦'%s' % x⟧\nreturn x + 1"),
    ("FX205", "s = ⟦'{}'.format(x)⟧\nreturn x + 1"),
    ("FX206", "return x + ⟦torch.randn(4)⟧"),
    ("FX206", "return x * ⟦random.random()⟧"),
    ("FX232", "⟦torch.manual_seed(3)⟧\nreturn x + torch.rand_like(x)"),
    ("FX232", "⟦random.seed(3)⟧\nreturn x + 1"),
    ("FX232", "⟦np.random.seed(3)⟧\nreturn x + 1"),
    ("FX232", "⟦torch.Generator().manual_seed(3)⟧\nreturn x + 1"),
    ("FX206", "return x + ⟦torch.empty(4).normal_()⟧"),
    ("FX206", "return x + ⟦self.table[0, :4].clone().uniform_(0, 1)⟧"),
    ("FX206", "return x * float(⟦np.random.rand()⟧)"),
    ("FX207", "return F.dropout(x, 0.5, training=⟦self.training⟧)"),
    ("FX208", "⟦self.count⟧ += 1\nreturn x + 1"),
    ("FX209", "⟦self.cache⟧ = x\nreturn x + 1"),
    ("FX209", 'name = "first" + "_mean"\n⟦setattr(self, name, x.mean())⟧\nreturn x + 1'),
    ("FX209", 'name = "other"\nsetattr(self, name, 2)\n⟦self.cache⟧ = x\nreturn x + 1'),
    ("FX210", "⟦self.table⟧ = self.table + x.sum()\nreturn x + 1"),
    ("FX210", "⟦self.table⟧.add_(1)\nreturn x + 1"),
    ("FX210", "⟦self.table.mul_(2)⟧.add_(x.sum())\nreturn x + 1"),
    ("FX210", "self.table.add_(x.sum())\n⟦self.table.mul_(2)⟧\nreturn x + 1"),
    ("FX211", "y = x + 1\n⟦y.data⟧ = x\nreturn y"),
    ("FX212", "with ⟦torch.no_grad()⟧:\n    y = x + 1\nreturn y"),
    ("FX213", "with ⟦torch.autocast('cpu')⟧:\n    y = x + 1\nreturn y"),
    ("FX213", "with ⟦torch.autocast('cuda', enabled=False)⟧:\n    y = x + 1\nreturn y"),
    ("FX215", "try:\n    n = ⟦len(x)⟧\nexcept RuntimeError:\n    n = 1\nreturn x * n"),
    ("FX215", "try:\n    if ⟦x.sum() > 0⟧:\n        x = x + 1\nexcept Exception:\n    pass\nreturn x + 1"),
    ("FX216", "try:\n    y = ⟦x.tensors()⟧\nexcept AttributeError:\n    y = x\nreturn y + 1"),
    ("FX217", "return ⟦x.squeze(0)⟧"),
    ("FX217", "return x + ⟦x.shap⟧"),
    ("FX204", "return x * ⟦{2: 3.0}.get(x.shape[0], 1.0)⟧"),
    ("FX218", "y = ⟦hash(x)⟧\nreturn x + 1"),
    ("FX218", "y = {}\ny[⟦x.shape[0]⟧] = 1\nreturn x + 1"),
    ("FX218", "y = set()\ny.add(⟦x.shape[0]⟧)\nreturn x + 1"),
    ("FX231", "return x * 2 if ⟦x.dtype is torch.float32⟧ else x + 1"),
    ("FX218", "y = {⟦x⟧: 1}\nreturn x + 1"),
    ("FX222", "y = torch.zeros(4)\n⟦y.add_(x)⟧\nreturn y"),
    ("FX222", "y = torch.zeros(2, 4)\n⟦y[0]⟧ = x[0]\nreturn x + y"),
    ("FX223", "import collections\nreturn ⟦collections.OrderedDict(a=x + 1)⟧"),
    ("FX225", "return x + ⟦torch.ones((x.shape[0], 4), device=self.table.device)⟧"),
    ("FX227", "⟦x.add_(1)⟧\nreturn x * 2"),
]


def expected(body: str) -> tuple[str, list[tuple[int, int, int, int]]]:
    """The text without marks, and the marked ranges."""
    text, marks, open_at = "", [], None
    line, column = 1, 0
    for char in body:
        if char == "⟦":
            open_at = (line, column)
        elif char == "⟧":
            marks.append((*open_at, line, column))
        else:
            text += char
            line, column = (line + 1, 0) if char == "\n" else (line, column + 1)
    return text, marks


@pytest.mark.parametrize("given", [True, False], ids=["inputs", "none"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1].splitlines()[0][:40]}")
def test_exact_expression(case, given, tmp_path):
    code, body = case[:2]
    text = HEAD + textwrap.indent(body, " " * 8)
    if len(case) > 2:
        text = text.replace(case[2], f"⟦{case[2]}⟧")
    text, marks = expected(text)
    if code in ("FX216", "FX217", "FX203") and not given:
        return check_without_inputs(code, text, marks, tmp_path)
    report = diagnose(text, tmp_path, "(torch.randn(2, 4),)" if given else None)
    found = [tuple(finding.span[1:]) for finding in report.findings if finding.code == code]
    assert found == marks, report.findings
    return None


def check_without_inputs(code, text, marks, tmp_path):
    """Without an example the value may have the attribute: said, but not as a warning."""
    report = diagnose(text, tmp_path, None)
    for finding in report.findings:
        if finding.code == code:
            assert tuple(finding.span[1:]) in marks
