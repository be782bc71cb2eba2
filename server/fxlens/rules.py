"""Where the page of a rule is, its title and its text.  The rules themselves are fxlib's."""

from __future__ import annotations

import sys
from pathlib import Path


def title(code: str) -> str:
    """What the rule is about, where its page is at hand; else its code."""
    head = text(code).partition("\n")[0]
    return head.partition(": ")[2] or code


def text(code: str) -> str:
    """The rule's page, in Markdown; empty where it is not at hand."""
    file = _file(code)
    return "" if file is None else file.read_text(encoding="utf-8")


def page(code: str) -> str | None:
    """The address of the rule's page on this machine, where it is at hand."""
    file = _file(code)
    return None if file is None else file.as_uri()


def _file(code: str) -> Path | None:
    """Beside the program, as in its source tree and in the editor's extension, or where pip puts it."""
    tree = Path(__file__).resolve().parents[2] / "docs" / "rules"
    for folder in (tree, Path(sys.prefix) / "share" / "fxlens" / "rules"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file
    return None
