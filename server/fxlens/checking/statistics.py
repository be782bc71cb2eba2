"""How often each code was found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TextIO

from fxlens import rules

from .checker import Checked


def write(files: Iterable[Checked], out: TextIO, as_json: bool) -> None:
    """A line for each code, the most frequent first: count, code, title."""
    counts = Counter(finding["code"] for file in files for finding in file.shown)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    if as_json:
        json.dump([{"code": code, "count": count, "title": rules.title(code)} for code, count in rows], out, indent=2)
        out.write("\n")
        return
    width = len(str(max(counts.values(), default=0)))
    for code, count in rows:
        out.write(f"{count:{width}}  {code}  {rules.title(code)}\n")
