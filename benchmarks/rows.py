"""Rows of the paper's tables next to ours: what is measured, the paper's figure, and ours.

A script of this folder with ``--rows FILE`` appends its rows there one by one, so that those of a run that ends early
are kept; `benchmarks/paper.py` reads them and prints one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Row", "add_row", "read_rows", "table", "threads_word"]


@dataclass(frozen=True)
class Row:
    """One line of the table; ``paper`` is empty if the paper has no such figure."""

    what: str
    paper: str
    here: str


def add_row(file: Path | None, what: str, paper: str, here: str) -> None:
    """Append a row to ``file``, if there is one."""
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(Row(what, paper, here))) + "\n")


def read_rows(file: Path) -> list[Row]:
    """The rows in ``file``; an incomplete last line is left out."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            rows.append(Row(**json.loads(line)))
        except ValueError:
            continue
    return rows


def table(rows: Iterable[Row]) -> str:
    """The rows as Markdown, padded, so that the source is readable."""
    lines = [("", "the paper", "here"), *((r.what, r.paper, r.here) for r in rows)]
    first, second, third = (max(len(line[i]) for line in lines) for i in range(3))
    text = [f"| {a:<{first}} | {b:>{second}} | {c:>{third}} |" for a, b, c in lines]
    text.insert(1, f"|{'-' * (first + 2)}|{'-' * (second + 1)}:|{'-' * (third + 1)}:|")
    return "\n".join(text)


def threads_word(threads: int) -> str:
    """The number of threads as text."""
    return "one thread" if threads == 1 else f"{threads} threads"
