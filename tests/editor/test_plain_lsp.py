"""FX Lens in editors that know only the Language Server Protocol: headless Neovim, and Emacs with eglot."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
EXAMPLE = HERE.parent.parent / "examples" / "broken" / "wrap_me.py"
CONDITION = "logits.max() > 10.0"


@pytest.fixture
def use(tmp_path, warm):
    """Runs an editor on a copy of the example, and returns its output."""

    def run(*command: str) -> dict:
        file = tmp_path / "wrap_me.py"
        file.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
        out = tmp_path / "seen.json"
        home = tmp_path / "home"
        home.mkdir()
        environment = {
            **os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "FXLENS_PYTHON": sys.executable,
            "FXLENS_FILE": str(file), "FXLENS_OUT": str(out),
        }  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path)
        assert out.exists(), f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return json.loads(out.read_text(encoding="utf-8"))

    return run


def test_neovim(use, tmp_path, monkeypatch, warm_python):
    """With the set-up of its page, which starts one server."""
    page = (HERE.parents[1] / "docs" / "editors.md").read_text(encoding="utf-8")
    (setup,) = re.findall(r"```lua\n(.*?)```", page, re.DOTALL)
    (tmp_path / "setup.lua").write_text(setup, encoding="utf-8")
    monkeypatch.setenv("FXLENS_SETUP", str(tmp_path / "setup.lua"))
    folders = [str(warm_python / "plain" / "bin"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    seen = use("nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {HERE / 'plain' / 'neovim.lua'}")
    assert seen.get("problem") is None and seen["servers"] == 1, seen
    (problem,) = seen["diagnostics"]
    line = EXAMPLE.read_text(encoding="utf-8").splitlines()[problem["lnum"]]
    assert line[problem["col"] : problem["end_col"]] == CONDITION
    assert (problem["code"], problem["source"]) == ("FX101", "fxlens")
    assert "logits" in seen["hover"] and "f32[4, 10]" in seen["hover"]
    assert "f32[4, 10]" in seen["hints"]
    assert "1 problem" in seen["lenses"] and "Code" in seen["lenses"]
    assert "def forward(self, x)" in seen["view"], "the lens's command writes the view to a file"
    assert any(title.startswith("x: f32[4, 32]") for title in seen["lenses"]), seen["lenses"]
    assert "torch.where" in seen["text"] or "torch.fx.wrap" in seen["text"]


def test_emacs(use):
    seen = use("emacs", "--batch", "-l", str(HERE / "plain" / "emacs.el"))
    assert seen["range"] == CONDITION
    assert "[FX101]" in seen["text"] and "tracing cannot choose a branch" in seen["text"]
    assert "f32[4, 10]" in seen["hover"]
    assert seen["actions"]
    assert "torch.where" in seen["buffer"] or "torch.fx.wrap" in seen["buffer"]
