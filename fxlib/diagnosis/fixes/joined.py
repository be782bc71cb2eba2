"""Two fixes as one: the second fixes the finding that the first one causes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fxlib.diagnosis.fixes import apply_fix
from fxlib.diagnosis.fixes.edits import Edit, split_lines
from fxlib.diagnosis.fixes.fix import Branches, Fix

__all__ = ["joined"]

Read = Callable[[str], "str | None"]


def joined(first: Fix, second: Fix, read: Read) -> Fix:
    """Both fixes, as edits of the texts before; those of the second alone refer to the texts after the first.

    The ``id`` holds both: ``"dynamo-setting+slice-without-asking"``.
    """
    texts = apply_fix(first, read)

    def after(path: str) -> str | None:
        return texts[path] if path in texts else read(path)

    def both(edits: Iterable[Edit]) -> tuple[Edit, ...]:
        final = {**texts, **apply_fix(replace(second, edits=tuple(edits)), after)}
        return tuple(edit for path, text in final.items() for edit in _between(path, read(path) or "", text))

    of_second = second.branches
    return replace(
        second,
        id=f"{first.id}+{second.id}",
        title=f"{first.title}, and {second.title[0].lower()}{second.title[1:]}",
        edits=both(second.edits),
        note="; ".join(dict.fromkeys(filter(None, [first.note, second.note]))) or None,
        settings={**first.settings, **second.settings},
        first=False,
        branches=of_second and Branches(of_second.count, both(of_second.before), both(of_second.after)),
        hazard="; ".join(dict.fromkeys(filter(None, [first.hazard, second.hazard]))) or None,
    )


def _between(path: str, before: str, after: str) -> Iterator[Edit]:
    """Edits of whole lines that make one text of another."""
    old, new = split_lines(before), split_lines(after)
    for kind, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Edit(path, start + 1, 0, end + 1, 0, "".join(new[first:last]))
