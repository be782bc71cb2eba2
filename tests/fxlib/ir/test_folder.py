"""`to_folder`: what is read from the folder is the module that was written, layer by layer."""

import importlib
import sys

import pytest
import torch
from torch import nn

import fxlib


def tenfold(module, inputs, output):
    return output * 10


@fxlib.wrap
def doubled(x):
    return x * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = nn.Conv2d(3, 3, 3, padding=1)
        self.same = nn.Conv2d(3, 3, 3, padding="same")
        self.circular = nn.Conv2d(3, 3, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm2d(3).eval()
        self.live = nn.BatchNorm2d(3)
        self.wide = nn.Linear(4, 4).double()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.hooked = nn.Linear(4, 4)
        self.hooked.register_forward_hook(tenfold)
        self.mixed = nn.Linear(4, 4)
        self.mixed.bias.requires_grad_(False)
        self.indices = nn.Parameter(torch.arange(4), requires_grad=False)
        self.__scale = nn.Parameter(torch.rand(4))

    def forward(self, x):
        x = self.norm(self.circular(self.same(self.plain(x))))
        x = self.live(self.frozen(self.mixed(self.hooked(x))))
        return doubled(self.wide(x.double())) * self.indices + self.__scale


# Made from their source; all others are pickled.
WRITTEN = {"plain", "norm", "live", "frozen"}


@pytest.mark.filterwarnings("ignore:Was not able to save")
@pytest.mark.parametrize("training", [True, False])
def test_layers_are_as_they_were(tmp_path, monkeypatch, training):
    x = torch.rand(2, 3, 4, 4)
    net = Net()
    net.norm.running_mean.uniform_()
    traced = fxlib.symbolic_trace(net)
    traced.register_buffer("kept", torch.rand(2), persistent=False)
    if not training:
        traced.eval()
    place = tmp_path / f"written_{training}"
    traced.to_folder(place, "Written")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        read = importlib.import_module(place.name).Written()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == place.name]:
            del sys.modules[name]
    source = (place / "module.py").read_text()
    assert {name for name, _ in traced.named_children() if f"{name}.pt" not in source} == WRITTEN
    assert {path: each.training for path, each in read.named_modules()} == {
        path: each.training for path, each in traced.named_modules()
    }
    kinds = [
        {path: (each.dtype, each.requires_grad) for path, each in module.named_parameters()}
        for module in (read, traced)
    ]
    assert kinds[0] == kinds[1] and torch.equal(read.kept, traced.kept)
    assert torch.equal(read(x), traced(x))
