"""The fixes of a finding, and their changes as text."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from fxlens.record import Edit, Finding, Fix
from fxlens.sources import files, positions


def best_fixes(finding: Finding, most: int = 2) -> list[Fix]:
    """The first fixes with different titles, proven ones before the others."""
    unique: dict[str, Fix] = {}
    for fix in sorted(finding["fixes"], key=lambda fix: (not is_proven(fix), not fix["checked"])):
        unique.setdefault(fix["title"], fix)
    return list(unique.values())[:most]


def is_proven(fix: Fix) -> bool:
    """Whether the fixed model was captured and computes what it did before."""
    return fix["preferred"] and fix["checked"]


def only_assumed(finding: Finding) -> bool:
    """Whether no fix of a finding is proven, but one would be if the code said what it assumes."""
    fixes = finding["fixes"]
    return any(fix["checked"] and fix["assumes"] for fix in fixes) and not any(map(is_proven, fixes))


def change(fix: Fix, texts: Mapping[str, str]) -> str:
    """The changes of a fix, as a unified diff with one line of context; ``texts`` of files that are not read from
    disk."""
    by_file: dict[str, list[Edit]] = {}
    for edit in fix["edits"]:
        by_file.setdefault(edit["file"], []).append(edit)
    lines: list[str] = []
    for path, edits in by_file.items():
        before = texts[path] if path in texts else files.read_shown(path)
        after = positions.edited(before, edits)
        _, _, *body = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="") or ("", "")
        lines += [f"# {os.path.basename(path)}", *body] if len(by_file) > 1 else body
    return "\n".join(lines)
