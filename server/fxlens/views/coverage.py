"""How many of the classes with a forward were judged, and why the others were not."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fxlens.record import ABSTRACT, Record, Target
from fxlens.sources.files import ERRORS, LONG

_FORWARD = re.compile(r"^[ \t]+def[ \t]+forward[ \t]*\(", re.MULTILINE)

_LEFT_OUT = ("left out by a comment", "the project's configuration makes it a leaf module", ABSTRACT)
_MOST_REASONS = 3
_REASONS = {
    "FX301": "in a file that cannot be imported", "FX302": "cannot be constructed", "FX304": "takes too long",
    "FX305": "crashes", "FX306": "ends the process", "FX307": "takes too much memory", "FX308": "cannot be parsed",
    "FX309": "no usable torch", "FX310": "recurses without end",
}  # fmt: skip


@dataclass
class Coverage:
    """Counts of classes.  ``reasons`` says why some were not judged, ``names`` which."""

    judged: int = 0
    assumed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.judged + self.reasons.total()

    def sentence(self) -> str:
        """``118 of 123 classes judged, 31 of them on assumed constructions; 5 not: …``; empty without classes."""
        if not self.total:
            return ""
        said = f"{self.judged} of {self.total} {'class' if self.total == 1 else 'classes'} judged"
        if self.assumed:
            said += f", {self.assumed} of them on assumed constructions"
        if self.reasons:
            said += f"; {self.reasons.total()} not: {self.why_not()}"
        return said

    def why_not(self) -> str:
        """``3 cannot be constructed, 2 crashes``."""
        common = self.reasons.most_common(_MOST_REASONS)
        rest = self.reasons.total() - sum(count for _, count in common)
        return ", ".join([f"{count} {reason}" for reason, count in common] + [f"{rest} for other reasons"] * (rest > 0))


def coverage(records: Iterable[tuple[Record, str]]) -> Coverage:
    """The coverage of records and their texts. Classes that are excluded do not count."""
    found = Coverage()
    for record, text in records:
        for target in record["targets"]:
            reason = not_judged(target)
            if reason is None:
                found.judged += 1
                found.assumed += is_assumed(target)
            elif reason not in _LEFT_OUT:
                found.reasons[reason] += 1
        whole = next((_REASONS[each["code"]] for each in record["findings"] if each["code"] in _REASONS), None)
        if whole is not None and not record["targets"] and (count := classes_in(text)):
            found.reasons[whole] += count
    return found


def count_unjudged(record: Record, text: str) -> int:
    """The number of classes of one file that were not judged."""
    return coverage([(record, text)]).reasons.total()


def unjudged(record: Record) -> list[str]:
    """The classes of a record that were neither judged nor excluded."""
    reasons = {target["name"]: not_judged(target) for target in record["targets"]}
    return [name for name, reason in reasons.items() if reason is not None and reason not in _LEFT_OUT]


def is_assumed(target: Target | Mapping[str, object]) -> bool:
    """Whether the class's construction is an assumption."""
    construct = target["construct"]
    return isinstance(construct, Mapping) and construct["source"] == "assumed"


def not_judged(target: Target) -> str | None:
    """Why a class was not judged, in a few words; None if it was."""
    if target["status"] in ("traced", "partial"):
        return None
    if target["status"] == "skipped":
        reason = target["reason"] or ""
        return reason if reason in _LEFT_OUT else "cannot be constructed"
    codes = {each["code"] for each in target["findings"]}
    return next((said for code, said in _REASONS.items() if code in codes), None)


@functools.lru_cache(maxsize=64)
def classes_in(text: str) -> int:
    """The number of classes with a forward in a text that could not be run; in a long text, the number of forwards."""
    if len(text) > LONG:
        return len(_FORWARD.findall(text))
    try:
        tree = ast.parse(text)
    except ERRORS:
        return 0
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.bases]
    return sum(
        any(isinstance(part, ast.FunctionDef) and part.name == "forward" for part in each.body) for each in classes
    )
