"""Python in other files: cells of notebooks, code blocks of Markdown, examples in docstrings."""

from __future__ import annotations

import ast
import json
import re
import textwrap

EXAMPLES = ">>>"
"""The path suffix under which the examples of a Python file's docstrings are stored as a separate file."""
_MAGIC = re.compile(r"^(\s*)[%!?].*|^(\s*).*\?\s*$")
_FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*(\S*)")


def code(path: str, text: str) -> str:
    """The Python text of a file of this name."""
    if path.endswith(".ipynb"):
        return _notebook(text)
    if path.endswith(".md"):
        return _markdown(text)
    return examples(text) if path.endswith(EXAMPLES) else text


def _notebook(text: str) -> str:
    """Its code cells one after the other; IPython-only lines become ``pass``, and cells in other languages (``%%bash``)
    are left out. Each cell starts with a comment with its number."""
    try:
        cells = json.loads(text).get("cells", [])
    except (ValueError, AttributeError, RecursionError):
        return ""
    parts = []
    for number, cell in enumerate(cells if isinstance(cells, list) else [], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        lines = "".join(map(str, source if isinstance(source, list) else [source])).splitlines()
        if lines and lines[0].startswith("%%"):
            continue
        cleaned = [_MAGIC.sub(lambda match: f"{match[1] or match[2] or ''}pass", line) for line in lines]
        if _parses("\n".join(cleaned)):
            parts += [f"# cell {number}", *cleaned]
    return "\n".join(parts) + "\n" if parts else ""


def _markdown(text: str) -> str:
    """Its Python blocks that parse, on their own lines; all other lines are empty."""
    lines = text.splitlines()
    found = [""] * len(lines)
    block: list[str] | None = None
    fence, start = "", 0
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if block is None:
            if match and match[3].strip("{}.").lower() in ("python", "py", "python3", "pycon"):
                block, fence, start = [], match[2], number + 1
        elif match and match[2].startswith(fence) and not match[3]:
            _place(block, found, start)
            block = None
        else:
            block.append(line)
    return "\n".join(found) + "\n" if any(found) else ""


def _place(block: list[str], found: list[str], start: int) -> None:
    if any(line.lstrip().startswith(">>>") for line in block):
        block = examples("\n".join(block)).splitlines()
    cleaned = [_MAGIC.sub(lambda match: f"{match[1] or match[2] or ''}pass", line) for line in block]
    made = textwrap.dedent("\n".join(cleaned))
    if _parses(made):
        found[start : start + len(block)] = made.splitlines() or [""] * len(block)


def examples(text: str) -> str:
    """The lines after ``>>>`` and ``...`` in runs that parse, on their own lines; all other lines are empty."""
    lines = text.splitlines()
    found = [""] * len(lines)
    run: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""]):
        bare = line.strip()
        if bare.startswith(">>> ") or (run and bare.startswith("...") and bare[3:4] in ("", " ")):
            run.append((number, bare[4:]))
        elif run and bare == ">>>":
            continue
        elif run:
            if _parses("\n".join(each for _, each in run)):
                for at, each in run:
                    found[at] = each
            run = []
    return "\n".join(found) + "\n" if any(found) else ""


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
