"""Where the page of a rule is, and its title.  The rules themselves are fxlib's."""

from __future__ import annotations

from pathlib import Path

_SITE = "https://github.com/fxlens/fxlens/blob/main/docs/rules"


def title(code: str) -> str:
    """What the rule is about, where its page is at hand; else its code."""
    local = _local(code)
    head = local.read_text(encoding="utf-8").partition("\n")[0] if local.is_file() else ""
    return head.partition(": ")[2] or code


def page(code: str) -> str:
    """The address of the rule's page: the file in this tree where there is one, else on the web."""
    local = _local(code)
    return local.as_uri() if local.is_file() else f"{_SITE}/{code}.md"


def _local(code: str) -> Path:
    return Path(__file__).resolve().parents[2] / "docs" / "rules" / f"{code}.md"
