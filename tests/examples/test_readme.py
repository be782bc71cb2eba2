"""The README's program runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_program_of_the_library_section(capsys) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(import torch\n.*?)```", text, flags=re.S)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "53 fused, 0 left" in printed and "on ONNX Runtime, fp32" in printed
