"""Texts as TOML has them. JSON is nearly the same: it may write one character as two escapes, and leave DEL as it is.

Standard library only: the worker runs it.
"""

from __future__ import annotations

import json


def quoted(text: str) -> str:
    """The text between quotation marks. What no file in UTF-8 can hold becomes a question mark."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
