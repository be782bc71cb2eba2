"""Where the page of a rule is.  The rules themselves are fxlib's."""

from __future__ import annotations

from pathlib import Path

_SITE = "https://github.com/fxlens/fxlens/blob/main/docs/rules"


def page(code: str) -> str:
    """The address of the rule's page: the file in this tree where there is one, else on the web."""
    local = Path(__file__).resolve().parents[2] / "docs" / "rules" / f"{code}.md"
    return local.as_uri() if local.is_file() else f"{_SITE}/{code}.md"
