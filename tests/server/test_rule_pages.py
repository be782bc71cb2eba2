"""The set-up rules' pages: the failing example gives the code through the command line, the mended one traces clean."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fxlib.diagnosis.rules.setup_examples import SETUP_EXAMPLES

PAGES = Path(__file__).resolve().parents[2] / "docs" / "rules"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> dict[str, dict]:
    """What one run of the command line says about every example, by file name."""
    folder = tmp_path_factory.mktemp("pages")
    for code in SETUP_EXAMPLES:
        bad, good = BLOCK.findall((PAGES / f"{code}.md").read_text(encoding="utf-8"))
        (folder / f"{code}_bad.py").write_text(bad)
        (folder / f"{code}_good.py").write_text(good)
    command = [sys.executable, "-m", "fxlens", "check", "--format", "json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    return {Path(file["path"]).name: file for file in json.loads(done.stdout)["files"]}


@pytest.mark.parametrize("code", SETUP_EXAMPLES)
def test_example(checked, code):
    assert [f["code"] for f in checked[f"{code}_bad.py"]["findings"]] == [code]
    good = checked[f"{code}_good.py"]
    assert good["findings"] == [] and [t["status"] for t in good["targets"]] == ["traced"]
