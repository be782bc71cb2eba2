"""The examples of docs/passes.md run unchanged."""

import re
from pathlib import Path

import torch

from fxlib.shapes.table import FUNCTIONS, METHODS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "passes.md"


def test_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    finally:
        for table, key in ((FUNCTIONS, torch.sinc), (FUNCTIONS, torch.Tensor.sinc), (METHODS, "sinc")):
            table.pop(key, None)


def test_every_pass_named_exists():
    for module in re.findall(r"^\| `(\w+)\.(\w+)` ", PAGE.read_text(encoding="utf-8"), re.M):
        found = __import__(f"fxlib.passes.{module[0]}", fromlist=[module[1]])
        assert callable(getattr(found, module[1]))
