"""What docs/fxlib.md shows runs, and prints what it says."""

import contextlib
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "fxlib.md"


def blocks():
    """The fenced blocks in order, as (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program(tmp_path, monkeypatch):
    scope = {"__name__": "document"}
    printed = ""
    shown = 0
    for number, (language, text) in enumerate(blocks()):
        if language == "python":
            # On disk, since spans and tracing read the source.
            path = tmp_path / f"block_{number}.py"
            path.write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(path), "exec"), scope)
            printed = out.getvalue()
        else:
            lines = [line.rstrip() for line in printed.strip().splitlines()]
            assert lines == [line.rstrip() for line in text.strip().splitlines()]
            shown += 1
    assert shown == 2
    assert "gelu" in scope["doubled"].code and "* 2" in scope["doubled"].code
    assert "linear torch.Size([3, 5])" in printed
