"""Construction of a module in a job's process: the reported errors, and the hints it uses."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest
from fxlens.sources import targets
from fxlens.sources.targets import Source
from fxlens.worker import assumed, construct

LOADING = """
import torch
from torch import nn


def load_checkpoint(path):
    with open(path, "rb") as file:
        return torch.load(file)


def load_weights(model, path=None):
    for name in model.statedict():
        pass


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


class Reads(Layer):
    def __init__(self, path="/nowhere/weights.pt"):
        super().__init__()
        self.load_state_dict(load_checkpoint(path)["weights"])


class Mistaken(Layer):
    def __init__(self):
        super().__init__()
        load_weights(self)


def load_pretrained_layer(path):
    return torch.load(path)


class Holds(Layer):
    def __init__(self, path="/nowhere/weights.pt"):
        super().__init__()
        self.encoder = load_pretrained_layer(path)

    def forward(self, x):
        return self.encoder(x)


class Unused(Layer):
    def __init__(self, path="/nowhere/weights.pt"):
        super().__init__()
        load_checkpoint(path)


class Without(Unused):
    def __init__(self):
        super().__init__(None)
"""

HINTED = """
from torch import nn

WIDTH = "width"


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.layer = nn.Linear(cfg["width"], cfg["depth"])

    def forward(self, x):
        return self.layer(x)
"""


def module_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    file = folder / "fxlens_making.py"
    file.write_text(text)
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, file.stem, module)
    exec(compile(text, str(file), "exec"), vars(module))
    return module


def made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    module = module_of(LOADING, folder, monkeypatch)
    return construct.evaluate(module, Source(f"{name}()", "default"), getattr(module, name))[0]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("Reads", FileNotFoundError, "/nowhere/weights.pt"),
        ("Holds", FileNotFoundError, "/nowhere/weights.pt"),
        ("Mistaken", AttributeError, "statedict"),
    ],
)
def test_the_error_of_a_function_that_loads_weights_is_told(name, kind, says, tmp_path, monkeypatch):
    with pytest.raises(kind, match=says):
        made(name, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["Unused", "Without"])
def test_weights_that_are_not_there_are_left_out(name, tmp_path, monkeypatch):
    assert type(made(name, tmp_path, monkeypatch)).__name__ == name


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("{'width': 8, 'depth': 4}", "Net(cfg={'width': 8, 'depth': 4})"),
        ("{WIDTH: 8, 'depth': 4}", "Net(cfg={WIDTH: 8, 'depth': 4})"),
        ("{**other, 'depth': 4}", "Net(cfg={'width': 64, 'depth': 2})"),
    ],
)
def test_a_configuration_of_a_call_elsewhere_is_a_start_whatever_its_keys(hint, expected, tmp_path, monkeypatch):
    module = module_of(HINTED, tmp_path, monkeypatch)
    (target,) = targets.find(ast.parse(HINTED), HINTED)
    target.construct = [Source(f"Net({hint})", "workspace")]
    assert assumed.construct(module, target, module.Net).text == expected
