"""What is written for the user: nothing that FX Lens did not write is replaced, and any terminal can show it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from fxlens.worker import outputs
from lsp_client import MODEL

ODD = MODEL.replace("return torch", "raise ValueError('\\udcff é 漢')\n        return torch")
SAVED = {"manifest.json": b'{"format"', "seal.json": b"{"}


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), **environment}
    command = [sys.executable, "-m", "fxlens", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, timeout=200)


def test_no_folder_of_others_is_written_to(tmp_path: Path, report):
    (tmp_path / "model.py").write_text(MODEL)
    package = tmp_path / "package"
    package.mkdir()
    for name, text in (("__init__.py", "precious = 1\n"), ("manifest.json", '{"mine": 1}'), ("module.pt", "mine")):
        (package / name).write_text(text)
    before = {each.name: each.read_bytes() for each in package.iterdir()}
    done = run("lower", "model.py", "--engine", "onnxruntime", "-o", "package", cwd=tmp_path)
    assert done.returncode == 2 and b"--force" in done.stderr, done.stderr
    assert {each.name: each.read_bytes() for each in package.iterdir()} == before
    for folder, force in (("package", True), ("new", False)):
        outputs.check_folder(str(tmp_path / folder), SAVED, force)
    (tmp_path / "empty").mkdir()
    outputs.check_folder(str(tmp_path / "empty"), SAVED, False)
    (package / "manifest.json").write_text('{"format": 3}')
    (package / "seal.json").write_text("{}")
    outputs.check_folder(str(package), SAVED, False)
    for other in (package / "module.pt", package):
        with pytest.raises(outputs.NotOurs):
            outputs.check_file(str(other), b"fxlib", False)
    report(tries=7, outcome="refused; --force allows it")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_encoding_can_be_written(tmp_path: Path, encoding: str, report):
    for name in ("é漢.py", os.fsdecode(b"\xff.py")):
        (tmp_path / name).write_text(ODD)
    for style in ("text", "github"):
        done = run("check", "--quick", "--all", "--format", style, ".", cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert done.returncode == 1 and b"Traceback" not in done.stderr, done.stderr
        assert b"\\u6f22" in done.stdout
    report(tries=2, outcome="escaped")


def test_an_output_that_cannot_be_written(tmp_path: Path, report):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fxlens", "init"]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, timeout=200)
        assert done.returncode == 2 and b"Traceback" not in done.stderr and b"No space left" in done.stderr
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command], cwd=tmp_path, timeout=200, capture_output=True
    )
    assert closed.returncode == 0
    report(tries=2, outcome="a sentence")


def test_names_of_files_add_nothing_to_a_proposed_configuration(tmp_path: Path, report):
    (tmp_path / "plain.py").write_text(
        "import torch\n\n\nclass Plain(torch.nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(dim, dim)\n\n    def forward(self, x):\n        return self.linear(x)\n"
    )
    (tmp_path / "a\n[tool.evil]\nq = 1 #\x1b[31m.py").write_text("from plain import Plain\n\nPlain(5)\n")
    done = run("init", ".", cwd=tmp_path)
    assert set(tomllib.loads(done.stdout.decode())["tool"]) == {"fxlens"} and b"\x1b" not in done.stdout
    report(outcome="escaped")


@pytest.mark.parametrize("command", ["graph", "code", "estimate"])
def test_no_command_drives_the_terminal(tmp_path: Path, command: str, report):
    (tmp_path / "model.py").write_text(
        MODEL.replace("return torch", "raise ValueError('\\x1b[2J\\x9b31m')\n        return torch")
    )
    done = run(command, "model.py", cwd=tmp_path)
    said = (done.stdout + done.stderr).decode()
    assert "x1b[2J" in said and not set(said) & {chr(each) for each in (*range(9), *range(14, 32), *range(127, 160))}
    report(outcome="escaped")
