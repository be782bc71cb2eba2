"""Pages of rules whose examples are whole files: what fails gives the code through the command line, what works traces
clean."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from warm_python import warm_fxlens

from fxlib.diagnosis.rules import RULES

PAGES = Path(__file__).resolve().parents[2] / "docs" / "rules"
EXAMPLES = [code for code, rule in sorted(RULES.items()) if rule.example is not None]
BLOCK = re.compile(r"(?:^`(?P<name>\w+\.\w+)`:\n\n^```\w+\n|^```python\n)(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
HOW = {"FX304": ["--deadline", "1"], "FX309": ["--python"], "FX702": ["--captures", "export"]}


def write(folder: Path, section: str) -> None:
    folder.mkdir()
    for block in BLOCK.finditer(section):
        (folder / (block["name"] or "net.py")).write_text(block["text"])


def check(folder: Path, *options: str) -> dict[str, dict]:
    """What the command line says of ``net.py``, by the name of the folder it is in."""
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "json", *options, ".")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 1, 2) and done.stdout, done.stderr
    files = {Path(file["path"]): file for file in json.loads(done.stdout)["files"]}
    return {path.parent.name: file for path, file in files.items() if path.name == "net.py"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folders ``FX301_bad``, ``FX301_good``, … with the files of each page."""
    folder = tmp_path_factory.mktemp("pages")
    for code in EXAMPLES:
        bad, good = (PAGES / f"{code}.md").read_text(encoding="utf-8").split("## Works")
        write(folder / f"{code}_bad", bad)
        write(folder / f"{code}_good", good)
    return folder


@pytest.fixture(scope="module")
def checked(folder) -> dict[str, dict]:
    """Every example but those that need an option to be seen (what waits for ever would take a minute here)."""
    late = [folder / f"{code}_bad" for code in HOW]
    for path in late:
        path.rename(folder.parent / path.name)
    result = check(folder)
    for path in late:
        (folder.parent / path.name).rename(path)
    return result


@pytest.mark.parametrize("code", [code for code in EXAMPLES if code not in HOW])
def test_what_fails(checked, code):
    assert [f["code"] for f in checked[f"{code}_bad"]["findings"]] == [code]


@pytest.mark.parametrize("code", EXAMPLES)
def test_what_works(checked, code):
    good = checked[f"{code}_good"]
    assert good["findings"] == [] and [t["status"] for t in good["targets"]] == ["traced"]


def test_what_waits_for_ever(checked, folder):
    assert [f["code"] for f in check(folder / "FX304_bad", *HOW["FX304"])[""]["findings"]] == ["FX304"]


def test_an_example_of_one(checked, folder):
    found = {each: check(folder / f"FX702_{each}", *HOW["FX702"])[""]["findings"] for each in ("bad", "good")}
    assert [f["code"] for f in found["bad"]] == ["FX702"] and found["good"] == []


def test_an_interpreter_without_torch(checked, folder, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    assert [f["code"] for f in check(folder / "FX309_bad", "--python", python)[""]["findings"]] == ["FX309"]
