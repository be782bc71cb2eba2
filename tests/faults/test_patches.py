"""Patches of files that other programs read, or cut into lines, differently: they are applied as a whole, or not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_fxlens

NET = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        # {beside}
        return x / len(x)
"""
ODD = ["plain", "a\fb", "a\vb", "a\x1cb", "a\x85b", "a\u2028b", "a\r        z = 1"]
TEXTS = {
    **{f"n{number}.py": NET.format(beside=beside).encode() for number, beside in enumerate(ODD)},
    "mark.py": b"\xef\xbb\xbf" + NET.encode(),
    "latin.py": b"# coding: latin-1\n" + NET.format(beside="é\x85").encode("latin-1"),
    "russian.py": b"# coding: koi8-r\n" + NET.format(beside="ж").encode("koi8-r"),
    "windows.py": NET.replace("\n", "\r\n").encode(),
    "no_end.py": NET.rstrip().encode(),
    "src/plain.py": NET.encode(),
}
CALLING = "from torch import nn\nimport helper\n\n\nclass Net(helper.Scale):\n    pass\n"


@pytest.mark.usefixtures("warm")
def test_a_patch_is_taken_by_those_that_apply_it(tmp_path: Path, report):
    """Among them a file that two others fix, too."""
    before, (by_git, by_patch) = tmp_path / "before", (tmp_path / name for name in ("git", "patch"))
    for folder in (before, by_git, by_patch):
        (folder / "src").mkdir(parents=True)
        for name, data in TEXTS.items():
            (folder / name).write_bytes(data)
    (before / "fxlens.toml").touch()
    for name in ("calls.py", "calls_too.py"):
        (before / name).write_text(CALLING.replace("helper", "n0").replace("Scale", "Net"))
    command = warm_fxlens("check", "--quick", "--diff", ".")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache"), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=before, env=environment, capture_output=True, timeout=250)
    assert done.stdout.count(b"\n+++ ") == len(TEXTS), done
    subprocess.run(["git", "apply"], cwd=by_git, input=done.stdout, check=True)
    if has_patch := subprocess.run(["sh", "-c", "command -v patch"], capture_output=True).returncode == 0:
        subprocess.run(["patch", "-p1", "--binary"], cwd=by_patch, input=done.stdout, check=True, capture_output=True)
    for name, data in TEXTS.items():
        after = (by_git / name).read_bytes()
        gone = {*data.split(b"\n")} - {*after.split(b"\n")}
        assert after != data and all(b"len(x)" in line for line in gone), name
        assert not has_patch or (by_patch / name).read_bytes() == after, name
    report(tries=len(TEXTS), outcome="applied as a whole")
