"""Models whose graphs differ for a reason that no rule covers: each is run side by side with its graph."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client
from warm_python import warm_fxlens

HEAD = """
import contextvars, functools, operator, os
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.stateless import functional_call as swapped

STEP = contextvars.ContextVar("step", default=0)
TURN = contextvars.ContextVar("turn", default=0)
TABLES = {}


@functools.singledispatch
def scale(x):
    return x * 3  # <- singledispatch


@scale.register
def _(x: torch.Tensor):
    return x * 2


@functools.lru_cache(maxsize=None)
def positions(count):
    return torch.arange(count).float()


def table(count):
    if count not in TABLES:
        TABLES[count] = torch.arange(count).float()
    return TABLES[count]
"""

# What the constructor does, and the lines of forward, the one of the finding marked.
DIFFER = {
    "number of a weight": (
        "self.scale = nn.Parameter(torch.tensor(2.0))",
        'return x * self.state_dict()["scale"].item()  # <-',
    ),
    "largest weight": ("", "return x / max(p.abs().max().item() for p in self.parameters())  # <-"),
    "singledispatch": ("", "return scale(x)"),
    "operator.iadd": ("", "y = x * 1\nz = y\noperator.iadd(y, 1)\nreturn z * 2  # <-"),
    "context variable": ("", "STEP.set(STEP.get() + 1)\nreturn x * STEP.get()  # <-"),
    "way that only eager takes": (
        "",
        "TURN.set(TURN.get() + 1)\ny = x + 1\nif TURN.get() > 1:  # <-\n    y = y * 2\nreturn y + x",
    ),
    "attribute that nobody has": (
        "",
        "try:\n    x.no_such\n    return x * 3  # <-\nexcept AttributeError:\n    return x * 2",
    ),
    "functional_call": (
        "",
        "weights = {name: each * 2 for name, each in self.layer.named_parameters()}\n"
        "return torch.func.functional_call(self.layer, weights, (x,))  # <-",
    ),
    "functional_call with new weights": (
        "",
        'return torch.func.functional_call(self.layer, {"weight": torch.ones(4, 4)}, (x,))  # <-',
    ),
    "stateless functional_call": ("", 'return swapped(self.layer, {"weight": torch.ones(4, 4)}, (x,))  # <-'),
    "layers that change places": (
        "self.other = nn.Linear(4, 4)",
        "self.layer, self.other = self.other, self.layer\nreturn self.layer(x)  # <-",
    ),
    "gradients by a name": (
        "",
        'for p in self.layer.parameters():\n    setattr(p, "requires_grad", False)\ny = self.layer(x)\n'
        'for p in self.layer.parameters():\n    setattr(p, "requires_grad", True)\nreturn y  # <-',
    ),
    "gradients of a part": (
        "self.other = nn.Linear(4, 4)",
        'name = "requires_grad"\nfor p in self.layer.parameters():\n    setattr(p, name, False)\n'
        "y = self.layer(x) + self.other(x)\n"
        "for p in self.layer.parameters():\n    setattr(p, name, True)\nreturn y  # <-",
    ),
    "default type": (
        "",
        "torch.set_default_dtype(torch.float64)\ny = torch.arange(0.0, x.shape[1])  # <-\n"
        "torch.set_default_dtype(torch.float32)\nreturn x + y",
    ),
}
# The same code does nothing wrong here.
AGREE = {
    "cached table": ("", "return x * positions(4) + table(4)"),
    "random numbers": ("self.norm = nn.BatchNorm1d(4)", "return F.dropout(self.norm(x)).mul_(2) + torch.rand_like(x)"),
    "buffer that is updated": (
        'self.register_buffer("mean", torch.zeros(4))',
        "self.mean.lerp_(x.mean(0), 0.1)\nreturn x - self.mean",
    ),
    "dictionary": ("", 'out = {}\nout["y"] = self.layer(x)\nout["sizes"] = x.size(0)\nreturn out'),
    "something else each time": ("self.read = functools.partial(os.urandom, 1)", "return x * self.read()[0]"),
    "that raises": ("self.n = [0]", "self.layer(x).new_ones(4, 4).inverse()\nreturn x * len(self.n)"),
}
# A rule knows it: its finding has a note.
KNOWN = {
    "counter": ("self.count = 0", "self.count += 1  # <-\nreturn x * self.count"),
    "buffer that is computed on": (
        'self.register_buffer("count", torch.zeros(1))',
        "self.count.add_(x.mean())\nreturn x * (self.count + 1)  # <-",
    ),
    "statistics of a layer": (
        "self.norm = nn.BatchNorm1d(4)",
        "y = self.norm(x)\nreturn y * self.norm.running_var.mean()  # <-",
    ),
}
# Of these, a rule says the same, and knows no place.
ALIKE = {
    "list by another name": ("self.o = [3.0]", "o = self.o\no[0] = o[0] + 1\nreturn x * o[0]"),
    "list that grows": ("self.o = [3.0]", "o = self.o\no += [1.0]\nreturn x * len(o)"),
}
MODELS = {**DIFFER, **AGREE, **KNOWN, **ALIKE}


def _text() -> str:
    text = HEAD
    for number, (name, (init, forward)) in enumerate(MODELS.items()):
        indented = ["".join(f"        {line}\n" for line in lines.splitlines()) for lines in (init, forward)]
        text += f"\n\n# fxlens: Net{number}() <- torch.randn(3, 4)\nclass Net{number}(nn.Module):\n"
        text += "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 4)\n"
        text += f"{indented[0]}\n"
        text += f"    def forward(self, x):\n{indented[1].replace('# <-', f'# <- {name}')}"
    return text


TEXT = _text()


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, warm_python: Path) -> dict[str, list[dict[str, Any]]]:
    """The command line's findings for each model, by its name here."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "net.py").write_text(TEXT)
    command = warm_fxlens("check", "--no-cache", "--format", "json", "net.py")
    environment = {"VIRTUAL_ENV": str(warm_python / "plain"), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, env=environment)
    assert done.stdout, done.stderr
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in MODELS}
    names = list(MODELS)
    for each in json.loads(done.stdout)["files"][0]["findings"]:
        found[names[int(each["target"].removeprefix("Net"))]].append(each)
    return found


@pytest.mark.parametrize("name", DIFFER)
def test_what_differs_is_found_at_its_place(name: str, checked, report):
    (found,) = [each for each in checked[name] if each["code"] == "FX236"]
    line = TEXT.splitlines()[found["range"]["start"]["line"]]
    assert line.endswith(f"# <- {name}"), (line, found["message"])
    assert found["severity"] == "warning"
    report(outcome=found["message"])


@pytest.mark.parametrize("name", AGREE)
def test_nothing_is_said_where_nothing_differs(name: str, checked):
    assert [each for each in checked[name] if each["severity"] in ("error", "warning")] == []


@pytest.mark.parametrize("name", KNOWN)
def test_a_finding_that_explains_it_says_what_was_seen(name: str, checked):
    (found,) = [each for each in checked[name] if each["severity"] == "warning"]
    assert found["code"] == ("FX208" if name == "counter" else "FX241")
    call = "in the second call" if name == "counter" else "in the first call"
    assert any(call in note["message"].lower() for note in found["related"])


@pytest.mark.parametrize("name", ALIKE)
def test_a_model_has_its_finding_where_another_has_the_same(name: str, checked):
    assert [each["code"] for each in checked[name]] == ["FX208"]


def test_the_editor_shows_it_after_the_trace(shared: Client, folder: Path):
    with shared.lent(deadline=30, lowering="off") as client:
        uri = client.open(folder / "net.py", TEXT.partition("# fxlens: Net1()")[0])
        seen = client.wait(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == uri
                and any(each["code"] == "FX236" for each in message["params"]["diagnostics"])
            )
        )
        (found,) = [each for each in seen["params"]["diagnostics"] if each["code"] == "FX236"]
        assert "# <- number of a weight" in TEXT.splitlines()[found["range"]["start"]["line"]]
