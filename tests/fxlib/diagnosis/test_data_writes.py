"""Updates of parameters and buffers through ``data``, which no version counts: of values that stay the same at the
trace, and of models on meta, which have none."""

from __future__ import annotations

import inspect

import pytest
import torch

import fxlib

from .snippets import load

NET = """\
import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)
        self.k = copy.deepcopy(self.q)
        self.masks = {{name: torch.ones_like(each) for name, each in self.q.named_parameters()}}
        self.register_buffer("seen", torch.zeros(4))
        for p in self.parameters():
            nn.init.zeros_(p)

    def both(self):
        return zip(self.q.parameters(), self.k.parameters())

    def forward(self, x):
        {}
        return self.q(x) + self.k(x) + self.seen
"""
# The statements; the last line is the one that is found.
LOST = {
    "a momentum encoder": "for q, k in self.both():\n    k.data = k.data * 0.9 + q.data * 0.1",
    "a teacher": "for q, k in self.both():\n    k.data.mul_(0.99).add_(q.data, alpha=0.01)",
    "a copy": "for q, k in self.both():\n    k.data.copy_(q.data)",
    "other memory": "for q, k in self.both():\n    k.data = q.data.clone()",
    "masks": "for name, p in self.q.named_parameters():\n    p.data.mul_(self.masks[name])",
    "masks by an operator": "for name, p in self.q.named_parameters():\n    p.data *= self.masks[name]",
    "weights that are clipped": "for p in self.parameters():\n    p.data.clamp_(-1, 1)",
    "clipped after each use": "for _ in range(2):\n    x = self.k(x)\n    for p in self.k.parameters():\n"
    "        p.data.clamp_(-1, 1)",
    "a bias": "for p in self.parameters():\n    p.data.zero_()",
    "in one branch": "if x.sum() > 0:\n    for p in self.parameters():\n        p.data.clamp_(-1, 1)",
    "memory in one branch": "if x.sum() > 0:\n    for p in self.parameters():\n        p.data = p.data * 0.9",
    "a row": "for p in self.parameters():\n    p.data[0].fill_(0)",
    "one vector": "v = nn.utils.parameters_to_vector(self.q.parameters())\n"
    "nn.utils.vector_to_parameters(v, self.k.parameters())",
    "a buffer": "self.seen.data.mul_(0.9)",
    "a buffer's memory": "self.seen.data = self.seen.data * 0.9",
}
KEPT = {
    "nothing": "",
    "a read": "for q, k in self.both():\n    x = x * (q.data.sum() + k.data.sum() == 0)",
    "its own memory": "for p in self.parameters():\n    p.data = p.data",
    "a device that it has": "self.k.to(next(self.parameters()).data.device)",
    "weights that are tied": "for q, k in self.both():\n    k.data = q.data",
    "memory that is put back": "p = next(self.q.parameters())\nold, p.data = p.data, p.data * 2\n"
    "x = self.q(x)\np.data = old",
    "a value that is put back": "p = next(self.q.parameters())\nold = p.data.clone()\np.data.mul_(2)\n"
    "x = self.q(x)\np.data.copy_(old)",
    "a copy's weights": "for p in copy.deepcopy(self.k).parameters():\n    p.data.mul_(0.5)",
    "a new layer's": "for p in nn.Linear(4, 4).parameters():\n    p.data.zero_()",
    "a temporary tensor": "t = self.seen.data * 1\nt.data.mul_(2)",
    "gradients": "for p in self.parameters():\n    _ = p.grad is not None and p.grad.data.zero_()",
}


def net(statements: str, folder):
    return load(NET.format(statements.replace("\n", "\n        ") or "pass"), folder)


def values(model) -> list:
    return [(each.untyped_storage()._cdata, each.detach().clone()) for each in model.state_dict().values()]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("case", LOST)
def test_an_update_through_data_is_found_where_it_is_written(case, device, tmp_path):
    module = net(LOST[case], tmp_path)
    with torch.device(device):
        model = module.Net()
    before = values(model)
    report = fxlib.diagnose(model, (torch.ones(2, 4),))
    lines = inspect.getsource(module).split("\n")
    found = [(each.code, lines[each.span.line - 1].strip()) for each in report.findings if each.code == "FX210"]
    assert found == [("FX210", LOST[case].split("\n")[-1].strip())]
    assert [memory for memory, _ in values(model)] == [memory for memory, _ in before], "the model has its own memory"
    assert device == "meta" or all(torch.equal(a, b) for (_, a), (_, b) in zip(values(model), before, strict=True))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("case", KEPT)
def test_what_changes_nothing_is_not_found(case, device, tmp_path):
    module = net(KEPT[case], tmp_path)
    with torch.device(device):
        model = module.Net()
    before = values(model)
    report = fxlib.diagnose(model, (torch.ones(2, 4),))
    assert "FX210" not in report.codes()
    assert [memory for memory, _ in values(model)] == [memory for memory, _ in before]


PARTS = """\
import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {}
        self.cache = None

    def forward(self, x):
        if self.cache is not None:
            self.cache.data.zero_()
        read = [each.data for each in self.parameters()]
        return self.part(x)
"""


@pytest.mark.parametrize(
    "part",
    [
        "nn.LazyLinear(4)",
        "nn.BatchNorm1d(4)",
        "weight_norm(nn.Linear(4, 4))",
        "spectral_norm(nn.Linear(4, 4))",
        "parametrizations.weight_norm(nn.Linear(4, 4))",
        "parametrizations.spectral_norm(nn.Linear(4, 4))",
    ],
)
def test_parts_that_keep_their_own_state(part, tmp_path):
    """What is found does not depend on reads of ``data``."""
    codes = []
    for text in (PARTS, PARTS.replace(".data", "")):
        folder = tmp_path / str(len(codes))
        folder.mkdir()
        codes.append(fxlib.diagnose(load(text.format(part), folder).Net(), (torch.ones(2, 4),)).codes())
    assert codes[0] == codes[1]


def test_values_that_are_changed_are_found_and_put_back(tmp_path):
    """Where memory is shared afterwards, or has another form."""
    text = "for q, k in self.both():\n    k.data = torch.cat([q.data, q.data + 1])[:4] if k.dim() == 1 else q.data + 1"
    model = net(text, tmp_path).Net()
    before = values(model)
    report = fxlib.diagnose(model, (torch.ones(2, 4),))
    assert report.codes() == ["FX210"]
    after = values(model)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in zip(before, after, strict=True))


def test_an_update_beside_one_that_the_graph_makes(tmp_path):
    module = net("self.seen.add_(x.mean(0))\nself.seen.data.mul_(0.9)", tmp_path)
    with torch.device("meta"):
        model = module.Net()
    (found,) = (each for each in fxlib.diagnose(model, (torch.ones(2, 4),)).findings if each.code == "FX210")
    assert found.message.startswith(
        "`self.seen.data.mul_(0.9)` runs only while tracing, so the graph updates `self.seen`"
    )


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_one_of_two_tensors_in_the_same_memory(device, tmp_path):
    module = net("for each in self.buffers():\n    each.data.mul_(1)", tmp_path)
    with torch.device(device):
        model, flat = module.Net(), torch.zeros(8)
    model.q.bias, model.seen = torch.nn.Parameter(flat[:4]), flat[4:]
    (found,) = fxlib.diagnose(model, (torch.ones(2, 4),)).findings
    assert found.message.startswith("`self.seen` is updated only while tracing")


def test_weights_in_another_dtype(tmp_path):
    model = net("for p in self.parameters():\n    p.data = p.data.half()", tmp_path).Net()
    assert fxlib.diagnose(model, (torch.ones(2, 4),)).codes() == ["FX210"]
    assert {each.dtype for each in model.parameters()} == {torch.float32}
