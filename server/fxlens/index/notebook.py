"""The code of a Jupyter notebook as one Python text."""

from __future__ import annotations

import json
import re

_MAGIC = re.compile(r"^(\s*)[%!?].*|^(\s*).*\?\s*$")


def code(text: str) -> str:
    """Its code cells one after the other; lines that only IPython understands are ``pass``, and a cell that is no
    Python at all (``%%bash``) is left out.  Each cell begins with a comment that says which it is."""
    try:
        cells = json.loads(text).get("cells", [])
    except (ValueError, AttributeError, RecursionError):
        return ""
    parts = []
    for number, cell in enumerate(cells if isinstance(cells, list) else [], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        lines = "".join(source if isinstance(source, list) else [str(source)]).splitlines()
        if lines and lines[0].startswith("%%"):
            continue
        parts.append(f"# cell {number}")
        parts += [_MAGIC.sub(lambda match: f"{match[1] or match[2] or ''}pass", line) for line in lines]
    return "\n".join(parts) + "\n" if parts else ""


def cell_of(text: str, line: int) -> int | None:
    """The number of the cell that holds this line of `code`'s text."""
    for each in reversed(text.splitlines()[:line]):
        if match := re.fullmatch(r"# cell (\d+)", each):
            return int(match[1])
    return None
