"""Who else uses what a fix changes: such a fix is offered with the reason, and never applied by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from fxlib.diagnosis.fixes import apply_fix
from fxlib.diagnosis.fixes.elsewhere import mentioned
from fxlib.diagnosis.fixes.verdict import Target
from fxlib.diagnosis.fixes.verify import Checker

from .marked import HEAD, net
from .test_verify import INPUTS, checker_for, settled

FORWARD = "class Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
GATED = """

class Other(nn.Module):
    def forward(self, x):
        return gate(x, True) * gate(x, False)


def gate(x, on):
    return x * 2 if on else x
"""
COUNT = f"{HEAD}\n\ndef count(items):\n    return len(items)\n\n\n{FORWARD}        return x * count(x)\n"
METHOD = "\n    def count(self, items):\n        return len(items)\n"
HELPED = f"{HEAD}\n\n{FORWARD}        return x * self.count(x)\n{METHOD}"
SHIFTED = "def shifted(y, by=1):\n    y += by\n    return y\n\n\n"
ADDED = f"{HEAD}\n\n{SHIFTED}{FORWARD}        x = x * 1\n        shifted(x)\n        return x\n"
KEPT = net("self.attention = x.softmax(-1)\nreturn self.attention * x\n")
PRIVATE = KEPT.replace(".attention", "._attention")
RATE = net("return nn.functional.dropout(x, self.p, training=self.training)\n", init="self.p = 0.5\n")
STATIC = net("return x + 1\n", signature="x").replace("    def forward", "    @staticmethod\n    def forward")
LIST = net(
    "parts = list(x.chunk(2, 1))\nif self.extra:\n    parts.append(x)\nreturn torch.cat(parts, 1)\n",
    init="self.extra = False\n",
)
LOG = net(
    "out = self.log if self.keep else {}\nout.update(d)\nreturn out['a'] * 2\n",
    init="self.keep = False\nself.log = {}\n",
    signature="self, d",
)
MINE = "self.log if self.keep else {}"
BRANCH = (
    HEAD
    + """

class Net(nn.Module):
    def other(self, x):
        return x * 3

    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return self.other(x)
"""
)
KEYS = (
    HEAD
    + """

class Net(nn.Module):
    def combine(self, a, b=1):
        return a * b

    def forward(self, d):
        return self.combine(**d)
"""
)
OTHER_LIST = net(
    "features = self.backbone(x)\nreturn x * len(features)\n", init="self.backbone = Backbone()\n"
).replace(
    "class Net",
    "class Backbone(nn.Module):\n    many = False\n\n    def forward(self, x):\n"
    "        return [x] if self.many else x\n\n\nclass Net",
)
NOT_TENSOR = net("if not isinstance(x, torch.Tensor):\n    x = torch.from_numpy(x)\nreturn x * 2\n")
CHECKED = net("if not isinstance(x, torch.Tensor):\n    raise TypeError('x')\nreturn x * 2\n")
GIVEN = net("parts = list(x.chunk(2, 1))\nreturn torch.cat(self.merged(parts), 1)\n").replace(
    "    def forward", "    def merged(self, parts):\n        return parts\n\n    def forward"
)
OPTIONAL = net("with torch.no_grad():\n    t = self.mean(x)\nreturn x + t\n", init="self.on = True\n").replace(
    "    def forward", "    def mean(self, x):\n        return x.mean() if self.on else None\n\n    def forward"
)
TIMES = net("return x * len(x)\n", signature="self, x")
DICT = "{'a': torch.randn(3, 4)}"

# The text, the finding's code, the fix, and whether it may be applied by itself.
CASES = {
    "a helper": (COUNT, "FX120", "len-to-shape", False),
    "a method": (HELPED, "FX120", "len-to-shape", False),
    "a helper that changes": (ADDED, "FX230", "in-place-method", False),
    "a list from a layer": (OTHER_LIST, "FX120", "len-to-shape", False),
    "a forward that takes lists": (TIMES, "FX120", "len-to-shape", False),
    "a division": (TIMES.replace("*", "/"), "FX120", "len-to-shape", True),
    "a tensor": (TIMES.replace("self, x", "self, x: torch.Tensor"), "FX120", "len-to-shape", True),
    "an attribute": (KEPT, "FX209", "local-value", False),
    "a private attribute": (PRIVATE, "FX209", "local-value", False),
    "a rate": (RATE, "FX207", "dropout-module", False),
    "a list that another construction makes longer": (LIST, "FX110", "drop-list", False),
    "a list": (LIST.replace("    parts.append(x)", "    x = x + 1"), "FX110", "drop-list", False),
    "a list that a method gets": (GIVEN, "FX110", "drop-list", False),
    "a dict of the module": (LOG, "FX113", "dict-union", False),
    "a dict that is kept": (LOG.replace(MINE, "{}\n        self.log['all'] = [out]"), "FX113", "dict-union", False),
    "a new dict": (LOG.replace(MINE, "{}"), "FX113", "dict-union", False),
    "a branch": (BRANCH, "FX101", "if-to-where", False),
    "keys": (KEYS, "FX113", "index-mapping", False),
    "other types": (NOT_TENSOR, "FX202", "drop-type-test", False),
    "a check of the type": (CHECKED, "FX195", "drop-type-test", False),
    "nothing in another construction": (OPTIONAL, "FX212", "detach", False),
    "a static forward": (STATIC, "FX187", "instance-forward", False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_others_use_is_not_changed_without_asking(name, tmp_path):
    text, code, recipe, expected = CASES[name]
    offered = settled(checker_for(tmp_path, text, DICT if "signature" in name or "(self, d)" in text else INPUTS), code)
    assert offered[recipe].preferred == expected, offered[recipe]
    if not expected:
        assert offered[recipe].hazard and offered[recipe].note


def test_a_file_that_is_scripted_gets_no_new_functions_without_asking(tmp_path):
    (tmp_path / "use.py").write_text("from net import Net\n\ntorch.jit.script(Net())\n")
    offered = settled(checker_for(tmp_path, TIMES, INPUTS), "FX120")
    assert "torch.jit.script" in offered["lift-expression"].note


@pytest.mark.parametrize(
    "name",
    ["tools/export.py", "README.md", "docs/use.rst", "bin/export", ".github/workflows/export.yml", "notes.txt",
     "build/export.py", "export.pyw", "fast.pyx"],
)  # fmt: skip
def test_the_whole_repository_is_searched_whatever_kind_of_text_it_is(name, tmp_path):
    folder = tmp_path / "models"
    for made in (tmp_path / ".git", folder, (tmp_path / name).parent):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("")
    (tmp_path / name).write_text("text\ntorch.jit._script.script(build())\n")
    assert mentioned(str(folder / "net.py"), r"\bjit\.\w*script", "jit") == Path(name).name


def test_only_regular_files_of_the_project_are_read(tmp_path):
    (tmp_path / "setup.py").write_text("")
    folder = tmp_path / "package" / "models"
    folder.mkdir(parents=True)
    (folder / "net.py").write_text("self.kept\n")
    os.mkfifo(folder / "pipe.py")
    (folder / "deep.ipynb").write_text("[" * 100_000)
    (folder / "data").write_bytes(b"\0net.kept\n")
    for other in (".venv", "tried"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "use.py").write_text("net.kept\n")
    (tmp_path / "tried" / "pyvenv.cfg").write_text("")
    assert mentioned(str(folder / "net.py"), r"\.kept\b") is None
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "plot.py").write_bytes(b"\xff\xfe net.kept\n")
    from fxlib.diagnosis.fixes import elsewhere

    elsewhere._texts.cache_clear()
    elsewhere._first.cache_clear()
    assert mentioned(str(folder / "net.py"), r"\.kept\b") == "plot.py"


def test_a_folder_of_everybody_is_no_project(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    (tmp_path / "use.py").write_text("net.kept_there\n")
    tmp_path.chmod(0o1777)  # as /tmp
    assert mentioned(str(folder / "net.py"), r"\.kept_there\b") is None
    tmp_path.chmod(0o755)
    other = tmp_path / "two"
    other.mkdir()
    assert mentioned(str(other / "net.py"), r"\.kept_there\b") == "use.py"


IN_LOOP = "for i in range(3):\n    if not y.any():\n        dead += 1\n        y = y + dead\nreturn y\n"
MOVED = {
    "a count of a loop": "y, dead = x * 0, 0\n" + IN_LOOP,
    "what may be suppressed": "y = x\nwith contextlib.suppress(RuntimeError):\n    if y.sum() > -1e9:\n"
    "        y = y * 2\n        y = y * self.w\nreturn y\n",
    "no items": "hit = x\nif any((hit := s).sum() > 100 for s in self.skips):\n    x = x + 1\nreturn hit, x\n",
    "a closure": "gain = 1.0\nscaled = lambda v: v * gain\ny = x\nif x.sum() > 0:\n    gain = 3.0\n    y = y + 1\n"
    "return scaled(y)\n",
    "layers of a loop": "y = x\nif x.sum() > -1e9:\n    for layer in self.layers:\n        y = layer(y)\nreturn y\n",
    "layers of a comprehension": "y = [x]\nif x.sum() > -1e9:\n    y = [layer(x) for layer in self.layers]\nreturn y\n",
    "a layer of several": "y = x\nif x.sum() > -1e9:\n    y = self.layers[0](y)\nreturn y\n",
    "a builtin's name": "y = x\nif x.sum() > self.range:\n    for i in range(2):\n        y = y + i\nreturn y\n",
}
MOVED_FROM = "self.w, self.skips, self.range = torch.ones(5), [], 0.5\nself.layers = nn.ModuleList([nn.Linear(4, 4)])\n"
MOVED_BY = {name: ["lift-block"] for name in ("a count of a loop", "a builtin's name", "what may be suppressed")}
"""The recipes that move it; of the others, something outside would notice."""


@pytest.mark.parametrize("name", MOVED)
def test_moved_code_does_what_it_did(name, tmp_path):
    text = "import contextlib\n" + net(MOVED[name], init=MOVED_FROM)
    checker = checker_for(tmp_path, text, INPUTS)
    moving = [fix for each in checker.before.report.findings for fix in checker.settle(each) if fix.kind == "lift"]
    assert [fix.id for fix in moving] == MOVED_BY.get(name, [])
    inputs = torch.zeros(2, 3), torch.ones(2, 3)
    for fix in moving:
        before, after = ({}, {})
        exec(text, before)
        exec(*apply_fix(fix).values(), after)
        for x in inputs:
            assert torch.equal(after["Net"]()(x), before["Net"]()(x))


def test_a_model_that_is_traced_in_eval_mode_keeps_its_graph(tmp_path):
    text = net("y = x + 1\nif self.training and x.sum() > 0:\n    y = y * 2\nreturn y\n")
    fix = settled(checker_for(tmp_path, text), "FX101")["lift-block"]
    assert not fix.preferred and fix.hazard == "its graph in eval mode, which is traced as it is, then has other nodes"


@pytest.mark.parametrize(("other", "keeps"), [("Other()", False), ("Net()", True)])
def test_a_model_that_is_traced_keeps_its_graph(tmp_path, other, keeps):
    checker = checker_for(tmp_path, net("return gate(x, x.sum() > 0)\n") + GATED)
    checker = Checker(checker.path, "Net()", INPUTS, others=[Target("Net()", INPUTS), Target(other, INPUTS)])
    fix = settled(checker, "FX101")["wrap"]
    assert fix.preferred == keeps
    assert keeps or "the graph of `Other()`, which is traced as it is, then has other nodes" in fix.hazard
