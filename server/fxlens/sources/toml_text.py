"""Strings in TOML syntax. JSON is nearly the same, but may write one character as two escapes, and does not escape DEL.

Standard library only: the worker runs it.
"""

from __future__ import annotations

import json


def quoted(text: str) -> str:
    """The text between quotation marks. Characters that UTF-8 cannot encode become question marks."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
