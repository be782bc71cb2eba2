"""The facts of each rule: a table generated from fxlib's rules, and the rule's page if installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fxlens.record import Severity

__all__ = ["Rule", "find", "known", "page", "said_unknown", "text", "title", "unknown"]

_MOST_SAID = 20
_LONGEST_SAID = 40


@dataclass(frozen=True)
class Rule:
    """The facts of a rule, as in ``fxlib.diagnosis.rules``, where they are described."""

    slug: str
    title: str
    message: str
    advice: str
    severity: Severity
    loud: bool
    misleads: bool
    torch_text: str

    def says(self, it: str, form: str = "call", call: str = "", error: str = "") -> str:
        """The first sentence of a finding: ``it`` is the expression, ``form`` the use of a condition, ``call`` its
        callee, ``error`` the exception."""
        said = self.message.format(it=it, form=_table()["forms"][form], call=call, error=error, package="")
        return said[:1].upper() + said[1:]


def find(code: str) -> Rule:
    """The rule of a code.

    Raises:
        KeyError: there is none.
    """
    return Rule(**_table()["rules"][code])


def unknown(codes: Iterable[str]) -> list[str]:
    """The codes that are no prefix of a rule's code; a misspelt one would select nothing."""
    return [each for each in codes if each not in _beginnings()]


def known(codes: Iterable[str]) -> list[str]:
    """The other codes."""
    return [each for each in codes if each in _beginnings()]


def said_unknown(codes: Sequence[str]) -> str:
    """A short text that these codes are unknown, however many."""
    more = f" and {len(codes) - _MOST_SAID} more" if len(codes) > _MOST_SAID else ""
    return f"no rule code begins with {', '.join(code[:_LONGEST_SAID] for code in codes[:_MOST_SAID])}{more}"


def title(code: str) -> str:
    """The rule's title; its code if unknown."""
    known = _table()["rules"].get(code)
    return known["title"] if known else code


def text(code: str) -> str:
    """The rule's page, in Markdown; empty if not installed."""
    file = _file(code)
    return "" if file is None else file.read_text(encoding="utf-8")


@cache
def page(code: str) -> str | None:
    """The address of the rule's page on this machine, if installed."""
    file = _file(code)
    return None if file is None else file.as_uri()


@cache
def _beginnings() -> frozenset[str]:
    return frozenset(code[:length] for code in _table()["rules"] for length in range(1, len(code) + 1))


@cache
def _table() -> dict[str, dict]:
    return json.loads(Path(__file__).with_name("rules.json").read_text(encoding="utf-8"))


def _file(code: str) -> Path | None:
    """The path beside the program, as in its source tree and in the editor's extension, or as installed by pip."""
    tree = Path(__file__).resolve().parents[2] / "docs" / "rules"
    for folder in (tree, Path(sys.prefix) / "share" / "fxlens" / "rules"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file
    return None
