"""The patterns of ``match``: whether known values match, and the names that they bind."""

from __future__ import annotations

import ast

from . import values as v
from .machine import Machine


def matches(machine: Machine, pattern: ast.pattern, subject: v.Value) -> bool | None:
    """None if unknown."""
    if isinstance(pattern, ast.MatchValue):
        return v.truth(machine.compared(ast.Eq(), subject, machine.value(pattern.value)))
    if isinstance(pattern, ast.MatchSingleton):
        return v.truth(machine.compared(ast.Is(), subject, v.Const(pattern.value)))
    if isinstance(pattern, ast.MatchAs):
        return True if pattern.pattern is None else matches(machine, pattern.pattern, subject)
    if isinstance(pattern, ast.MatchOr):
        answers = [matches(machine, each, subject) for each in pattern.patterns]
        return True if True in answers else None if None in answers else False
    if isinstance(pattern, ast.MatchSequence):
        return _matches_each(machine, pattern.patterns, subject)
    return None


def _matches_each(machine: Machine, patterns: list[ast.pattern], subject: v.Value) -> bool | None:
    if isinstance(subject, v.Const):
        return False
    items = machine.items_of(subject) if isinstance(subject, v.Sequence) else None
    if items is None or any(isinstance(each, ast.MatchStar) for each in patterns):
        return None
    if len(items) != len(patterns):
        return False
    answers = [matches(machine, each, item) for each, item in zip(patterns, items, strict=True)]
    return False if False in answers else None if None in answers else True


def bind(machine: Machine, pattern: ast.pattern, subject: v.Value) -> None:
    """Assigns the names of a pattern that matches; holes where the part is unknown."""
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None:
            bind(machine, pattern.pattern, subject)
        if pattern.name is not None:
            machine.assign(ast.Name(pattern.name, ast.Store()), subject)
        return
    if isinstance(pattern, ast.MatchSequence):
        items = machine.items_of(subject) or []
        for at, each in enumerate(pattern.patterns):
            bind(machine, each, items[at] if len(items) == len(pattern.patterns) else v.Hole("item"))
        return
    for part in ast.walk(pattern):
        name = getattr(part, "name", None) or getattr(part, "rest", None)
        if isinstance(name, str):
            machine.assign(ast.Name(name, ast.Store()), v.Hole(name))
