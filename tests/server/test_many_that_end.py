"""Files of many classes that end their process: each of the others is judged, or named as one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_command import fxlens

ENDS = """# fxlens: Ends{0}() <- torch.randn(2, 4)
class Ends{0}(nn.Module):
    def forward(self, x):
        {1}


"""
LAST = """# fxlens: Last() <- torch.randn(2, 4)
class Last(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x
"""


@pytest.mark.parametrize(
    ("statement", "ended", "last"),
    [("os.abort()", "FX305", {"FX101"}), ("time.sleep(99)", "FX304", {"FX101", "FX304"})],
)
def test_none_is_missing(tmp_path: Path, statement: str, ended: str, last: set[str]):
    many = "".join(ENDS.format(number, statement) for number in range(8))
    (tmp_path / "net.py").write_text(f"import os, time, torch\nfrom torch import nn\n\n\n{many}{LAST}")
    for _ in range(2):  # nothing is cached
        done = fxlens("check", "net.py", "--format", "json", "--deadline", "0.5", cwd=tmp_path)
        found = {(each["target"], each["code"]) for each in json.loads(done.stdout)["files"][0]["findings"]}
        assert found == {(f"Ends{number}", ended) for number in range(8)} | {("Last", code) for code in last}
        assert done.returncode == 1
