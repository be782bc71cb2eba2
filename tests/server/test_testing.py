"""``fxlens.testing`` as a project uses it: in its own tests, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NETS = """import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return self.part(x)

    def part(self, x):
        return x + len(x)


class Optional(nn.Module):
    def forward(self, x, scale=None):
        return x if scale is None else x * scale


class Pinned(nn.Module):
    def forward(self, x):
        return x.flatten(1) if x.shape[0] == 2 else x


class Sized(nn.Module):
    def forward(self, x):
        return x.reshape(2, 4) * 2


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, scale=1.0):
        return {"x": nn.functional.dropout(self.norm(x), training=self.training) * scale}
"""

TESTS = """import torch
from fxlens.testing import assert_captures
from package.nets import Counting, Gate, Optional, Pinned, Plain, Sized


def test_gate():
    assert_captures(Gate(), torch.randn(2, 4))


def test_optional():
    assert_captures(Optional(), torch.randn(2, 4))


def test_plain():
    model = Plain()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_captures(model, torch.randn(2, 4))
    assert_captures(model.eval(), {"x": torch.randn(2, 4), "scale": torch.randn(4)})
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_raises_itself():
    assert_captures(Plain(), torch.randn(2, 5))


def test_function():
    assert_captures(lambda x: x + 1, torch.ones(2))


def test_fx_does_not_matter():
    assert_captures(Gate(), torch.randn(2, 4), fx=False)


def test_export():
    assert_captures(Gate(), torch.randn(2, 4), fx=False, export=True)


def test_breaks():
    assert_captures(Gate(), torch.randn(2, 4), fx=False, breaks=1, recompiles=0)
    assert_captures(Gate(), torch.randn(2, 4), fx=False, breaks=0)


def test_recompiles():
    assert_captures(Counting(), torch.randn(2, 4), fx=False, breaks=0, recompiles=0)


def test_dynamic():
    assert_captures(Pinned(), torch.randn(2, 4), dynamic={"x": (1,)}, fx=False)
    assert_captures(Pinned(), torch.randn(2, 4), dynamic={"x": (0,)}, fx=False)


def test_dynamic_without_a_program():
    assert_captures(Gate(), torch.randn(2, 4), dynamic=True, fx=False)


def test_dynamic_in_no_way():
    assert_captures(Sized(), torch.randn(2, 4), dynamic=True, fx=False)
    assert_captures(Sized(), torch.randn(2, 4), dynamic={"x": (0,), "y": (1,)}, fx=False)


def test_all():
    assert_captures(Plain().eval(), torch.randn(2, 4), export=True, breaks=0, recompiles=0, dynamic=True)
"""
OWN = """import torch
import torch.fx
from fxlens.testing import assert_captures
from package.nets import Gate


class Whole(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return True


def test_project():
    assert_captures(torch.nn.Sequential(Gate()), torch.randn(2, 4))


def test_given():
    assert_captures(torch.nn.Sequential(Gate()), torch.randn(2, 4), tracer=torch.fx.Tracer, leaf_modules=())
"""
CAPTURES = {
    "test_export", "test_breaks", "test_recompiles", "test_dynamic", "test_dynamic_without_a_program",
    "test_dynamic_in_no_way",
}  # fmt: skip


def run_pytest(folder: Path) -> str:
    """What pytest prints for a folder."""
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA"]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, env=environment).stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tested")
    (folder / "package").mkdir()
    (folder / "package" / "nets.py").write_text(NETS)
    (folder / "test_nets.py").write_text(TESTS)
    return run_pytest(folder)


IN_ITS_FOLDER = """import pytest


@pytest.fixture(autouse=True)
def in_its_folder(request, monkeypatch):
    monkeypatch.chdir(request.path.parent)
"""
SAID = {
    "whole": ('tracer = "test_whole:Whole"', ["given"]),
    "leaves": ('leaf-modules = ["Gate"]', ["given"]),
    "nobody": ('tracer = "test_nobody:Nobody"', ["project", "given"]),
}


def test_what_a_project_says_of_tracing_counts_unless_the_test_says_else(tmp_path: Path):
    """Three projects in one run, each of which is the current folder of its tests; these are named after it."""
    (tmp_path / "conftest.py").write_text(IN_ITS_FOLDER)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "nets.py").write_text(NETS)
    for name, (said, _) in SAID.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "pyproject.toml").write_text(f"[tool.fxlens]\n{said}\n")
        own = OWN.replace("test_project", f"test_project_{name}").replace("test_given", f"test_given_{name}")
        (folder / f"test_{name}.py").write_text(own)
    printed = run_pytest(tmp_path)
    lines = [line.split()[1].partition("::")[2] for line in printed.splitlines() if line.startswith("FAILED")]
    assert sorted(lines) == sorted(f"test_{each}_{name}" for name, (_, failed) in SAID.items() for each in failed)
    for each in lines:
        own = printed.partition(f"_ {each} _")[2].partition("\n____")[0]
        assert ("has no attribute 'Nobody'" if each == "test_project_nobody" else "FX101") in own, own


def test_only_what_is_not_captured_fails(printed: str):
    failed = {line.split()[1].partition("::")[2] for line in printed.splitlines() if line.startswith("FAILED")}
    assert failed == {"test_gate", "test_optional", "test_raises_itself", *CAPTURES}
    assert "9 failed, 4 passed" in printed


def test_a_failure_shows_every_problem_as_check_does(printed: str):
    own = printed.partition("_ test_gate _")[2].partition("_ test_optional _")[0]
    lines = [line.removeprefix("E").strip() for line in own.splitlines() if line.startswith("E")]
    at = next(number for number, line in enumerate(lines) if line.startswith("package/nets.py:7:12: error FX101 "))
    assert lines[at + 1] == "7 |         if x.sum() > 0:"
    assert lines[at + 2].rstrip() == "|            ^^^^^^^^^^^"
    assert any(line.startswith("= fix (not checked): Replace the `if` with torch.where") for line in lines)
    assert any(line.startswith("package/nets.py:12:20: error FX120 ") for line in lines)
    assert "torch.fx does not trace it: TraceError: symbolically traced variables" in own
    # The place is the line of the test, and not one inside FX Lens.
    assert "test_nets.py:7: NotCaptured" in own and "assertion.py" not in own.replace("testing.assertion.", "")


def test_a_graph_that_gives_something_else_fails_and_says_what_may_be_the_reason(printed: str):
    own = printed.partition("_ test_optional _")[2].partition("_ test_raises_itself _")[0]
    assert "the graph of torch.fx raises TypeError where the model does not" in own
    assert "warning FX2" in own
    assert "the model itself raises" in printed.partition("_ test_raises_itself _")[2]


def test_failures_of_the_other_captures(printed: str):
    said = {name: printed.partition(f"_ {name} _")[2].partition("\n____")[0] for name in CAPTURES}
    assert "torch.export does not accept it" in said["test_export"]
    assert "package/nets.py:7:12: error FX501" in said["test_export"]
    assert "torch.compile: 1 graph break instead of 0" in said["test_breaks"] and ":7:12: " in said["test_breaks"]
    assert "torch.compile: 1 recompilation instead of 0" in said["test_recompiles"]
    assert " FX621 " in said["test_recompiles"] and "buffer" in said["test_recompiles"]
    assert "program is valid for one size only" in said["test_dynamic"] and " FX701 " in said["test_dynamic"]
    assert "torch.export does not accept it" in said["test_dynamic_without_a_program"]
    never = said["test_dynamic_in_no_way"]
    assert "the model itself accepts no other size for dimension 0 of x" in never
    assert "`dynamic` names dimension 1 of y, but the inputs have dimension 0 of x, dimension 1 of x" in never
