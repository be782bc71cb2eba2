"""Every recipe: the exact text it writes, that torch.fx then traces it, and that eager computes what it did before."""

from __future__ import annotations

import sys
import types

import pytest
import torch
import torch.fx
from torch import nn

from .cases_control import CONTROL
from .cases_values import NUMPY, VALUES
from .marked import HEAD, applied, fixes_of, net

CASES = {**CONTROL, **VALUES}


def run(text: str, inputs: tuple, training: bool = False):
    """Execute a file, build its Net under a fixed seed, and call it on copies of the inputs."""
    name = "fixed_net"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, "net.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    model = module.Net().train(training)
    torch.manual_seed(1)
    with torch.no_grad():
        return model, model(*(x.clone() for x in inputs))


def trace(model: nn.Module):
    traced = torch.fx.symbolic_trace(model)
    torch.manual_seed(1)
    return traced


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c[4] is not None])
def test_recipe(name):
    recipe, text, inputs, wanted, place = CASES[name]
    fixes, files = fixes_of(recipe, text)
    assert fixes, "the recipe declined"
    after = applied(fixes[place], files)["net.py"]
    for part in wanted:
        assert part in after, after
    for training in (False, True):
        _, before_value = run(files["net.py"], inputs, training)
        model, after_value = run(after, inputs, training)
        torch.testing.assert_close(after_value, before_value)
        traced = trace(model)
        with torch.no_grad():
            torch.testing.assert_close(traced(*(x.clone() for x in inputs)), after_value)


# recipe, source: what must be declined, and why
DECLINED = {
    "local value that is read before": ("local-value", net("y = self.mean\n«self.mean = x»\nreturn y + self.mean\n")),
    "local value that others may read": ("local-value", net("«self.mean = x.mean()»\nreturn x\n")),
    "where on a shape": ("if-to-where", net("if «x.shape[0] == 1»:\n    x = x * 2\nreturn x\n")),
    "where on training": ("if-to-where", net("if self.training and «x.sum() > 0»:\n    x = x * 2\nreturn x\n")),
    "where with a call in a branch": ("if-to-where", net("if «x.sum() > 0»:\n    print(1)\n    x = x * 2\nreturn x\n")),
    "where reads what it binds": (
        "if-to-where",
        net("a = b = x\nif «x.sum() > 0»:\n    a = x * 2\n    b = a + 1\nreturn a + b\n"),
    ),
    "static forward that something calls": (
        "instance-forward",
        HEAD
        + "\n\nclass Net(nn.Module):\n    @staticmethod\n    «def forward(x):\n        return x * 2»\n"
        + "\n\nNet.forward(1)\n",
    ),
    "lift over return": (
        "lift-block",
        net("for i in range(3):\n    if «x.sum() > i»:\n        return x\nreturn self.fc(x)\n"),
    ),
    "lift over break": (
        "lift-block",
        net("for m in self.ms:\n    x = m(x)\n    if «x.sum() > 0»:\n        break\n", init="self.ms = []\n"),
    ),
    "lift over yield": ("lift-block", net("if «x.sum() > 0»:\n    x = yield x\nreturn x\n")),
    "lift hides a submodule": (
        "lift-block",
        net("if «x.sum() > 0»:\n    x = self.fc(x)\nreturn x.tanh()\n", init="self.fc = nn.Linear(4, 4)\n"),
    ),
    "lift of an attribute write": (
        "lift-block",
        net("if «x.sum() > 0»:\n    self.seen = True\n    x = x + 1\nreturn x\n"),
    ),
    "lift of a maybe unbound name": (
        "lift-block",
        net("if «x.sum() > 0»:\n    y = x\nif x.sum() > 0:\n    x = y + 1\nreturn x\n"),
    ),
    "lift of a global": ("lift-block", net("global G\nif «x.sum() > 0»:\n    global H\n    x = x * 2\nreturn x\n")),
    "lift whose result is unused": ("lift-block", net("if «x.sum() > 0»:\n    y = x\nself.n()\nreturn x\n")),
    "unpack of a call": ("unpack-index", net("a, *b = «f(x)»\nreturn a\n")),
    "list of zip": ("drop-list", net("return list(«zip(x, x)»)\n")),
    "setitem of an attribute": ("setitem-wrapped", net("«self.buf[0]» = x\nreturn x\n")),
    "dropout always on": ("dropout-module", net("return «nn.functional.dropout(x, 0.5, training=True)»\n")),
    "dropout with a local p": (
        "dropout-module",
        net("p = 0.5\nreturn «nn.functional.dropout(x, p, training=self.training)»\n"),
    ),
    "unknown numpy function": ("np-to-torch", net("return «np.linalg.svd(x)»\n", NUMPY)),
    "seed of an argument": ("seed-wrapped", net("«torch.manual_seed(n)»\nreturn x\n", signature="self, x, n")),
    "draw with a traced size": ("lift-random", net("return «torch.randn(x.shape[0])»\n")),
}

# Where eager refuses, or gives another type than the fixed text: the text alone. recipe, source, part of the result
TEXTS = {
    "set": ("list-of-generator", net("return torch.sum(x, dim=«{0}»)\n"), "torch.sum(x, dim=(0,))"),
    "generator": ("list-of-generator", net("return torch.stack(«(r for r in y)»)\n"), "torch.stack([r for r in y])"),
    "flip": ("flip", net("return torch.stack(list(«reversed(x)»))\n"), "torch.stack(torch.flip(x, (0,)))"),
    "check": (
        "torch-assert",
        net("«torch._check(x.shape[0] > 0)»\n"),
        'torch._assert(x.shape[0] > 0, "x.shape[0] > 0")',
    ),
    "data": ("copy-in-place", net("«y.data» = y + 1\n"), "y.copy_(y + 1)"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    recipe, text, part = TEXTS[name]
    fixes, files = fixes_of(recipe, text)
    assert part in applied(fixes[0], files)["net.py"]


@pytest.mark.parametrize("name", DECLINED)
def test_declined(name):
    recipe, text = DECLINED[name]
    assert fixes_of(recipe, text)[0] == []


def test_head_is_real():
    assert "torch.fx" in HEAD
