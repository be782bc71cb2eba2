"""FX241: what forward computes from buffers alone, and what of it matters."""

import torch

import fxlib

from .snippets import load

NET = """
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("mean", "var", "seen", "filled"):
            self.register_buffer(name, torch.ones(4))
        self.register_buffer("order", torch.arange(4))
        self.register_buffer("table", torch.ones(4, 4), persistent=False)
        self.register_buffer("moved", torch.ones(4), persistent=False)
        self.reset()

    def reset(self):
        self.fill()

    def fill(self):
        self.filled.fill_(1.0)
        self.table.fill_(1.0)


class Net(Base):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.live = False

    def resize(self):
        self.register_buffer("table", torch.ones(8, 8), persistent=False)
        self.fill()

    def update(self, x):
        self.seen = self.seen * 0.9 + x * 0.1

    def forward(self, x):
        x = (x - self.mean) / ⟦(self.var + 1e-5).sqrt()⟧
        x = x * ⟦self.mean.expand(4, 4)⟧ + ⟦torch.cat([self.mean, self.filled])[:4]⟧
        x = x * ⟦torch.zeros(4).add_(self.var)⟧
        x = x * (⟪1.0 / self.seen⟫) + ⟪self.norm.running_var.sqrt()⟫ + ⟦halved(self.moved)⟧
        x = x + self.table[0] + self.table[0, 1].item() + torch.zeros_like(self.var) + self.mean.new_ones(4)
        x = x[:, self.order.flip(0)] + torch.arange(4).to(self.var) + ⟦self.var[0].item()⟧ + ⟪self.seen[0].item()⟫
        if self.live:
            self.update(x)
        return x * self.var + self.order


def halved(t):
    return t / 2


def load(net, moved):
    net.moved.copy_(moved)
"""


def marked(text: str, marks: str) -> list[str]:
    return [part.split(marks[1])[0] for part in text.split(marks[0])[1:]]


def test_a_constant_of_buffers_is_reported_where_they_may_change(tmp_path):
    """As a warning where forward changes them, as information where only `load_state_dict` or other code does."""
    text = "".join(each for each in NET if each not in "⟦⟧⟪⟫")
    model = load(text, tmp_path).Net()
    report = fxlib.diagnose(model, (torch.randn(4, 4),))
    assert set(report.codes()) == {"FX241"}
    lines = text.splitlines()
    found = [(lines[e.span.line - 1][e.span.column : e.span.end_column], e.severity) for e in report.findings]
    inside = ("halved(self.moved)", "t / 2")  # where it is computed
    wanted = [(each.replace(*inside), "info") for each in marked(NET, "⟦⟧")]
    wanted += [(each, "warning") for each in marked(NET, "⟪⟫")]
    assert sorted(found) == sorted(wanted)

    class Reading(fxlib.Tracer):
        proxy_buffer_attributes = True

    report = fxlib.diagnose(model, (torch.randn(4, 4),), tracer=Reading)
    assert "FX241" not in report.codes()
