"""Random combinations of faults in random surroundings: each is found, none hides another, none is invented."""

from __future__ import annotations

import gc
import linecache
import random
import sys
import textwrap
from dataclasses import replace

import pytest
import torch
from torch import nn

import fxlib
from fxlib.diagnosis.engine import instrument, trees
from fxlib.diagnosis.fixes.reload import load_file

from .snippets import diagnose, load, torch_error

# fmt: off
FAULTS = [
    ('FX101', 'if x.sum() > 0:\n    x = x + 1'),
    ('FX101', 'x = x + 1 if x.mean() > 0 else x'),
    ('FX102', 'if x.shape[0] > 5:\n    x = x * 2'),
    ('FX102', 'while x.dim() > 2:\n    x = x[0]'),
    ('FX104', 'assert x.shape[1] == 4'),
    ('FX105', 'if x.dim() in (1, 3):\n    x = x + 1'),
    ('FX106', 'x = x * max(x.shape[0], 3)'),
    ('FX107', 'if 0 < x.shape[0] < 9:\n    x = x + 2'),
    ('FX110', 'for row in x:\n    x = x + row'),
    ('FX110', 'x = torch.stack([r for r in x])'),
    ('FX110', 'x = torch.cat(list(x.chunk(2)))'),
    ('FX111', 'b, *rest = x.shape'),
    ('FX112', 'x = x.view(*x.shape[:1], 4)'),
    ('FX114', 'x = x / sum(x.shape)'),
    ('FX120', 'x = x * len(x)'),
    ('FX122', 'x = x * torch.tensor(x.shape)[0]'),
    ('FX130', 'x = x * int(x.shape[0])'),
    ('FX131', 'x = x * round(x.shape[0] / 2)'),
    ('FX132', 'q, r = divmod(x.shape[1], 3)\nx = x * q'),
    ('FX133', 'for i in range(x.shape[0]):\n    x = x + i'),
    ('FX134', 'x = x * [1.0, 2.0, 3.0][x.shape[0]]'),
    ('FX135', 'x = x * {2: 3.0}[x.shape[0]]'),
    ('FX136', "s = '%d' % x.shape[0]"),
    ('FX140', 'x = x + np.sqrt(x)'),
    ('FX141', 'x = torch.mul(x, np.float32(2))'),
    ('FX150', 'x[0] = 1'),
    ('FX150', 'x[:, 1] *= 2'),
    ('FX160', 'x = x + torch.zeros(x.shape[0], 4)'),
    ('FX186', 'x = torch.autograd.Variable(x)'),
    ('FX188', 'x = x + torch.distributions.Normal(x, 1.0).mean'),
    ('FX175', 'x = x.add(x, alpha=[{1}])'),
    ('FX201', 'if mask is None:\n    x = x + 1'),
    ('FX202', 'if isinstance(x, torch.Tensor):\n    x = x + 1'),
    ('FX203', "if hasattr(x, 'foo'):\n    x = x + 1"),
    ('FX204', 'if x.shape[0] in {2, 3}:\n    x = x + 1'),
    ('FX205', "s = f'{x.shape}'"),
    ('FX206', 'x = x + torch.rand(4)'),
    ('FX232', 'torch.manual_seed(3)\nx = x + torch.rand_like(x)'),
    ('FX212', 'with torch.no_grad():\n    x = x + 1'),
    ('FX215', 'try:\n    x = x + len(x)\nexcept Exception:\n    pass'),
    ('FX211', 'y = x * 1\ny.data = x'),
    ('FX218', 'd = {x: 1}'),
]
# fmt: on


def surrounded(number: int, fault: str, context: str) -> dict[str, str]:
    """The parts of a program that run ``fault`` on ``x`` in some surroundings."""
    block = textwrap.indent(fault, "    ")
    if context == "if":
        return {"body": f"if self.flag:\n{block}\n"}
    if context == "for":
        return {"body": f"for _ in range(2):\n{block}\n"}
    if context == "with":
        return {"body": f"with contextlib.nullcontext():\n{block}\n"}
    if context == "inner":
        return {"body": f"def inner{number}(x):\n{block}\n    return x\nx = inner{number}(x)\n"}
    if context == "helper":
        return {"helpers": f"def helper{number}(x):\n{block}\n    return x\n\n\n", "body": f"x = helper{number}(x)\n"}
    if context == "module":
        block = textwrap.indent(block, "    ")
        return {
            "helpers": f"class M{number}(nn.Module):\n    def forward(self, x):\n{block}\n        return x\n\n\n",
            "init": f"self.m{number} = M{number}()\n",
            "body": f"x = self.m{number}(x)\n",
        }
    return {"body": fault + "\n"}


def program(seed: int) -> tuple[str, list[str]]:
    """A program with some of the faults, and their codes."""
    chance = random.Random(seed)
    faults = [chance.choice(FAULTS) for _ in range(chance.randint(2, 9))]
    parts = {"helpers": "", "init": "", "body": ""}
    for number, (code, fault) in enumerate(faults):
        own = code == "FX201"  # asks of an argument of forward
        context = chance.choice(["plain", "if", "for", "with", "inner", *([] if own else ["helper", "module"])])
        for key, text in surrounded(number, fault, context).items():
            parts[key] += text
    text = (
        "import contextlib\n\nimport numpy as np\nimport torch\nfrom torch import nn\n\n\n"
        + parts["helpers"]
        + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.flag = True\n"
        + textwrap.indent(parts["init"], " " * 8)
        + "\n    def forward(self, x, mask=None):\n"
        + textwrap.indent(parts["body"], " " * 8)
        + "        return x\n"
    )
    return text, sorted(code for code, _ in faults)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """No time limits, since these tests run in parallel with others on a busy machine."""
    for name in ("fxlib.diagnosis.diagnose", "fxlib.diagnosis.engine.eager_path"):
        module = sys.modules[name]
        monkeypatch.setattr(module, "_LIMITS", replace(module._LIMITS, seconds=60.0, patience=120.0))


@pytest.mark.parametrize("seed", range(60))
def test_each_fault_is_found_and_none_invented(seed, tmp_path):
    text, codes = program(seed)
    failed = torch_error(load(text, tmp_path)) is not None
    for inputs in ("(torch.randn(2, 4),)", None):
        report = diagnose(text, tmp_path, inputs)
        assert sorted(report.codes()) == codes, text
        assert report.traces != failed


def test_the_tree_of_a_function_is_the_same_for_as_long_as_its_code_lives(tmp_path):
    # Probes are known by the ids of the nodes, so a diagnosis that met another tree would find nothing more.
    functions = "".join(f"def function{each}(x):\n    return x\n" for each in range(2000))
    module = load(functions, tmp_path)
    codes = [getattr(module, f"function{each}").__code__ for each in range(2000)]
    found = [trees.function_tree(code) for code in codes]
    assert all(trees.function_tree(code) is tree is not None for code, tree in zip(codes, found, strict=True))
    known = len(trees._functions)
    vars(module).clear()
    codes.clear()
    gc.collect()
    assert len(trees._functions) <= known - 2000


def test_a_function_that_is_executed_again_is_rewritten_once(tmp_path, monkeypatch):
    path, rewritten = str(tmp_path / "again.py"), []
    original = instrument._rewritten
    monkeypatch.setattr(
        instrument,
        "_rewritten",
        lambda function, *more: rewritten.append(function.__name__) or original(function, *more),
    )
    text = "def double(x):\n    return x * 2\n\n\ndef f(x):\n    return double(x) / len(x)\n"
    texts = [text, text, text.replace("* 2", "+ x"), "\n" + text]
    modules = [load_file(path, {path: each}) for each in texts]
    for number, (module, text) in enumerate(zip(modules, texts, strict=True)):
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        report = fxlib.diagnose(module.f, (torch.ones(3),))
        assert [(found.code, found.span.line) for found in report.findings] == [("FX120", 6 + (number == 3))]
        assert rewritten.count("double") == (1, 1, 2, 3)[number]
    same = [trees.function_tree(module.f.__code__) for module in modules]
    assert same[0] is same[1] is same[2] is not same[3]


def test_faults_are_found_in_both_of_two_files_of_the_same_text(tmp_path):
    text = "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + torch.rand(4)\n"
    copies = [load(text, tmp_path).Net() for _ in range(2)]
    report = fxlib.diagnose(nn.Sequential(*copies), (torch.randn(2, 4),))
    assert report.codes() == ["FX206", "FX206"]
