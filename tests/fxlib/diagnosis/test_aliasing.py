"""Augmented assignments are recorded out of place: a difference where the tensor has another reference."""

from __future__ import annotations

import pytest
import torch

import fxlib

from .snippets import load

NET = """\
import torch
import torch.nn.functional as F
from torch import nn


def helper(t):
    return t.reshape(t.shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop, self.same, self.flat = nn.Linear(4, 4), nn.Dropout(0.1), nn.Identity(), nn.Flatten()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.fc(x)
        {}
        y += 1
        return y.sum() + {}
"""
THE_SAME = [
    "h.reshape(-1)", "h.contiguous()", "torch.flatten(h)", "self.flat(h)", "self.same(h)", "self.drop(h)", "h.mT",
    "F.dropout(h, 0.1, training=False)", "h.to(x.device)", 'h.to("cpu")', "h.type_as(x)", "h.unflatten(-1, (2, 2))",
    "h.real", "h.diagonal()", "h.swapdims(0, 1)", "torch.broadcast_to(h, (2, 4))", "torch.atleast_2d(h)", "self.act(h)",
    "h.clamp_(0)", "helper(h)", "h[:, ::2]", "h.detach().requires_grad_(False)",
    "torch.view_as_complex(h.view(2, 2, 2))",
]  # fmt: skip
ANOTHER = ["h.reshape(-1).clone()", "self.fc(h)", "h.double()", "F.relu(h)", "torch.cat([h])", "h[[0, 1]]", "h.t() * 2"]
APART = {
    "y, h = h[:, :2], h[:, 2:]": "h",
    "y, h = h[::2], h[1::2]": "h",
    "y, h = h.chunk(2, dim=-1)": "h",
    "y, h = h.t()[1:3], h[:, 3]": "h",
    "y = h.view(-1)": "y.new_ones(h.shape).sum()",
}


def model(body: str, read: str, folder):
    return load(NET.format(body, read), folder).Net().eval().requires_grad_(False)


@pytest.mark.parametrize(
    ("body", "read", "code"),
    [
        *((f"y = {each}", "h", "FX230") for each in THE_SAME),
        *((f"y = {each}", "h", "") for each in ANOTHER),
        *((body, read, "") for body, read in APART.items()),
        ("y, h = h[:, :3], h[:, 2:]", "h", "FX230"),
        ("y = h.chunk(2)[0]", "h.sum()", "FX230"),
        ("z = self.fc(h); a, b = torch.broadcast_tensors(h, z); y = h.view(-1)", "a.sum() + b.sum()", "FX230"),
    ],
)
def test_one_finding_where_the_graph_differs(body, read, code, tmp_path):
    net, x = model(body, read, tmp_path), torch.randn(2, 4)
    same = torch.allclose(net(x), fxlib.symbolic_trace(net)(x))
    assert (" ".join(fxlib.diagnose(net, x).codes()), same) == (code, not code)


def test_memory_that_is_not_known_is_a_reason_to_compare(tmp_path):
    text = NET.format("y = self.own(h)", "h").replace("self.act =", "self.own, self.act = Own(),")
    net = load(text.replace("class Net", "class Own(nn.Identity):\n    pass\n\n\nclass Net"), tmp_path).Net()
    assert fxlib.diagnose(net, torch.randn(2, 4), leaf_modules=["Own"]).doubtful
    assert not fxlib.diagnose(model("y = self.fc(h)", "h", tmp_path), torch.randn(2, 4)).doubtful
