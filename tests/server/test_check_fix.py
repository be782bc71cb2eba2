"""``fxlens check --fix`` and ``--diff``: which fixes are applied, which are shown, and what stays as it is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from check_command import BROKEN, fxlens
from fxlens.checking import checker
from fxlens.checking.checker import Options
from fxlens.host.launch import Launch
from fxlens.host.outcome import Outcome
from fxlens.host.pool import Pool


def test_diff_shows_and_fix_applies_the_proven_fixes(tmp_path: Path):
    path = tmp_path / "net.py"
    before = BROKEN.replace("\n", "\r\n")
    path.write_bytes(before.encode())
    shown = fxlens("check", "net.py", "--diff", cwd=tmp_path)
    assert path.read_bytes() == before.encode()
    assert '+torch.fx.wrap("_gate_x")' in shown.stdout and shown.returncode == 1
    done = fxlens("check", "net.py", "--fix", "--format", "json", cwd=tmp_path)
    (file,) = json.loads(done.stdout)["files"]
    assert done.returncode == 0 and file["findings"] == [] and file["targets"][0]["status"] == "traced"
    assert "torch.fx.wrap: _gate_x" in done.stderr
    after = path.read_bytes().decode()
    assert after.count("\r\n") == after.count("\n") and "naïve 🙂" in after
    assert {name for name in os.listdir(tmp_path) if not name.startswith("__")} == {"net.py", ".cache"}


def test_diff_writes_its_patch_to_the_output_and_has_no_other_format(tmp_path: Path):
    (tmp_path / "net.py").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "d.patch").write_text("an older one")
    done = fxlens("check", "net.py", "--diff", "--output", "d.patch", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and '+torch.fx.wrap("_gate_x")' in _read(tmp_path / "d.patch")
    (tmp_path / "net.py").write_text("import torch\n")
    done = fxlens("check", "net.py", "--diff", "--output", "d.patch", cwd=tmp_path)
    assert (done.returncode, done.stdout, _read(tmp_path / "d.patch")) == (0, "", "")
    for other in (["--format", "json"], ["--statistics"]):
        done = fxlens("check", "net.py", "--diff", *other, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "") and "leave out --format and --statistics" in done.stderr


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_fix_leaves_alone_what_is_ignored(tmp_path: Path):
    """By the command line, by the project, by a comment: the other problem is fixed."""
    path = tmp_path / "net.py"
    ignored = ("if x.sum() > 0:  # fxlens: ignore[FX101]", "len(x)", "assert x.max() < 9")
    text = BROKEN.replace("if x.sum() > 0:", f"{ignored[2]}\n        {ignored[0]}")
    path.write_text(text.replace("return", "if x.min() > 0:\n            x = -x\n        return"), encoding="utf-8")
    (tmp_path / "fxlens.toml").write_text('[severity]\nFX104 = "off"\n')
    done = fxlens("check", "net.py", "--fix", "--ignore", "FX120", cwd=tmp_path)
    after = path.read_text(encoding="utf-8")
    assert all(each in after for each in ignored), after
    assert "        if x.min()" not in after and "torch.fx.wrap(" in after, done.stderr


DYING = """\
import os

import torch
from torch import nn


class Dies(nn.Module):
    def forward(self, x):
        if "len" not in Dies.forward.__code__.co_names:
            os._exit(9)  # once it is fixed
        return x / len(x)


class Lives(nn.Module):
    def forward(self, x):
        return x + len(x)
"""


def test_fix_goes_on_with_the_other_classes_where_one_kills_the_process(tmp_path: Path):
    path = tmp_path / "net.py"
    path.write_text(DYING, encoding="utf-8")
    done = fxlens("check", "net.py", "--fix", cwd=tmp_path)
    assert path.read_text(encoding="utf-8") == DYING.replace("x + len(x)", "x + x.shape[0]"), done.stderr


def test_fixes_that_are_proven_are_applied_where_the_first_process_is_killed(tmp_path: Path, monkeypatch):
    path = tmp_path / "net.py"
    text = DYING[: DYING.index("class Dies")] + DYING[DYING.index("class Lives") :]
    path.write_text(text, encoding="utf-8")
    run, killed = Pool.run, []

    async def first_is_killed(pool, message, *arguments, **options):
        if message["kind"] == "fix_all" and not killed:
            killed.append(message["known"])
            return Outcome("exit", -signal.SIGKILL)
        return await run(pool, message, *arguments, **options)

    async def check() -> None:
        options = Options(launch=Launch(sys.executable, str(tmp_path)), fix="write")
        async for _ in checker.check([str(path)], options):
            pass

    monkeypatch.setattr(Pool, "run", first_is_killed)
    asyncio.run(check())
    assert killed[0] and path.read_text(encoding="utf-8") == text.replace("x + len(x)", "x + x.shape[0]")


ASSUMES = """import torch
from torch import nn


# fxlens: Net() <- torch.rand(3, 4)
class Net(nn.Module):
    def forward(self, x):
        self.last = x.softmax(-1)
        return self.last * x
"""


def test_fixes_that_assume_something_are_applied_only_if_asked_for(tmp_path: Path):
    path = tmp_path / "net.py"
    path.write_text(ASSUMES, encoding="utf-8")
    done = fxlens("check", "net.py", "--fix", cwd=tmp_path)
    assert path.read_text(encoding="utf-8") == ASSUMES
    assert "fix (right only if nobody else reads the attribute): Use a local variable: last" in done.stdout
    assert "1 problem left whose fixes assume what the code does not say; --unsafe-fixes applies them" in done.stderr
    done = fxlens("check", "net.py", "--fix", "--unsafe-fixes", cwd=tmp_path)
    assert path.read_text(encoding="utf-8") == ASSUMES.replace("self.last", "last") and "FX209" not in done.stdout
    assert "net.py: fixed: Use a local variable: last" in done.stderr and "problem left" not in done.stderr
    alone = fxlens("check", "net.py", "--unsafe-fixes", cwd=tmp_path)
    assert (alone.returncode, alone.stdout) == (2, "") and "works with --fix or --diff only" in alone.stderr


def test_fix_of_a_file_that_another_one_fixed_goes_on_from_there(tmp_path: Path):
    """Both files lead to the same line, and each has one of its own."""
    part = "from torch import nn\n\n\nclass Part(nn.Module):\n    def forward(self, x):\n        return x / len(x)\n"
    lone = "\n\nclass Lone(nn.Module):\n    def forward(self, x):\n        return x + len(x)\n"
    whole = (
        "from torch import nn\nfrom part import Part\n\n\nclass Whole(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.linear, self.part = nn.Linear(4, 4), Part()\n\n"
        "    def forward(self, x):\n        return self.part(self.linear(x))\n"
    )
    (tmp_path / "part.py").write_text(part + lone)
    (tmp_path / "a_whole.py").write_text(whole)
    done = fxlens("check", ".", "--fix", cwd=tmp_path)
    assert "len(x)" not in (tmp_path / "part.py").read_text() and "not fixed" not in done.stderr, done.stderr
