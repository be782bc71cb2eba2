"""A fix as data, what a recipe is given, and the registry of recipes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.elsewhere import mentioned
from fxlib.diagnosis.fixes.imports import Bindings, needed
from fxlib.diagnosis.fixes.source import FunctionNode, Source
from fxlib.diagnosis.fixes.verdict import Verdict

__all__ = ["RECIPES", "REGISTERING", "SWITCH", "Branches", "Draft", "Fix", "Recipe", "Site", "recipe", "switched"]


SWITCH = "__fxlens_switch__"
"""What `switched` calls: see `switching.py`."""

REGISTERING = ("module-list", "parameter-list")
"""Recipes whose purpose it is that the model has more parameters."""


@dataclass(frozen=True)
class Branches:
    """``count`` conditions that a fix rewrites: edits of the text before, and those of the fix, with each of them
    `switched`, so that a proof can take every way through them."""

    count: int
    before: tuple[Edit, ...]
    after: tuple[Edit, ...]


def switched(number: int, condition: str) -> str:
    """A condition, by its number, that asks the proof whether it holds."""
    return f"{SWITCH}({number}, {condition})"


@dataclass(frozen=True)
class Fix:
    """A change of source that fixes a finding; ``preferred`` and ``checked`` are set by verification only.

    ``settings`` are the options of the diagnosis that the edits change: ``{"concrete_args": {"flag": True}}`` or
    ``{"leaf_modules": ["Gate"]}``. ``first`` puts a proven fix before the other proven ones. ``late`` says that there
    was no time to check it. ``branches`` are those that it rewrites, ``hazard`` is what no run would show: with one, a
    fix is never preferred, but ``unsafe`` where it would be.
    """

    id: str
    title: str
    kind: str
    edits: tuple[Edit, ...]
    note: str | None = None
    preferred: bool = False
    checked: bool = False
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    first: bool = False
    late: bool = False
    branches: Branches | None = field(default=None, compare=False, repr=False)
    hazard: str | None = None
    unsafe: bool = False

    @property
    def proven(self) -> bool:
        """Whether it proved itself, also where it assumes something."""
        return self.preferred or self.unsafe

    def as_dict(self) -> dict[str, Any]:
        """The ``fix`` of a record; ``late`` is there only where it is true."""
        late = {"late": True} if self.late else {}
        return {
            **late,
            "id": self.id,
            "title": self.title,
            "kind": self.kind,
            "preferred": self.preferred,
            "checked": self.checked,
            "assumes": self.hazard,
            "note": self.note,
            "edits": [edit.as_dict() for edit in self.edits],
        }

    def settled(self, verdict: Verdict) -> Fix | None:
        """The fix as it may be offered after a verification; None when it must not be offered.

        It is dropped when the edited text fails, when the finding stays, or when numbers change. It is preferred when
        the finding is gone, nothing new came, and everything that could be compared agrees; a fix that brings up
        another problem says so in its title.
        """
        if verdict.failed or not verdict.gone or verdict.same_eager is False or verdict.equal_to_eager is False:
            return None
        hazard = self.hazard or verdict.hazard
        note = "; ".join(filter(None, [self.note, verdict.note, hazard])) or None
        checked = verdict.same_eager is True
        if verdict.moved_to:
            lines = " and ".join(map(str, verdict.moved_to))
            where = f"new line{'s' if len(verdict.moved_to) > 1 else ''} {lines}"
            left = f"another problem remains, at {where}" if verdict.traces else f"tracing still fails, at {where}"
            return replace(self, title=f"{self.title} (after this fix, {left})", checked=checked, note=note)
        proven = checked and not verdict.side_effects
        unsafe = proven and hazard is not None
        return replace(self, preferred=proven and not unsafe, unsafe=unsafe, checked=checked, note=note, hazard=hazard)


@dataclass(frozen=True)
class Draft:
    """What a recipe proposes: a title, the edits, and a remark about what changes; the others as of `Fix`."""

    title: str
    edits: list[Edit]
    note: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    first: bool = False
    branches: Branches | None = None
    hazard: str | None = None


@dataclass
class Site:
    """The place of a finding in its source, as a recipe sees it.

    ``node`` is the innermost expression that covers the span of the finding. ``read`` gives the text of any file, as
    the trace saw it, or None. ``project``: other files may be looked into.
    """

    finding: Any
    source: Source
    node: ast.AST
    read: Callable[[str], str | None]
    project: bool = False

    @cached_property
    def statement(self) -> ast.stmt | None:
        return self.source.statement_of(self.node)

    @cached_property
    def function(self) -> FunctionNode | None:
        return self.source.function_of(self.node)

    @cached_property
    def bindings(self) -> Bindings:
        return Bindings.of(self.source)

    def nearest(self, *types: type[ast.AST]) -> Iterator[Any]:
        """The covering nodes of these types, innermost first, up to and including the statement."""
        for node in [self.node, *self.source.ancestors(self.node)]:
            if isinstance(node, types):
                yield node
            if isinstance(node, ast.stmt):
                return

    def mentioned(self, pattern: str, *words: str) -> str | None:
        """The name of another file of the project in which the regular expression is found, if that has one of the
        words."""
        return mentioned(self.source.file, pattern, *words) if self.project else None

    def text(self, node: ast.AST) -> str:
        return self.source.segment(node)

    def operand(self, node: ast.AST) -> str:
        """The text of an expression, in parentheses where an operator or a dot beside it would bind tighter."""
        text = self.text(node)
        kept = (
            ast.Name,
            ast.Attribute,
            ast.Subscript,
            ast.Call,
            ast.List,
            ast.ListComp,
            ast.Dict,
            ast.Set,
            ast.Constant,
        )
        if isinstance(node, kept):
            return text
        return f"({text})"

    def call_name(self, node: ast.AST) -> str | None:
        """The dotted name of what a call calls: ``torch.nn.functional.dropout``; bare names stay as they are."""
        return self.bindings.resolve(node.func) if isinstance(node, ast.Call) else None

    def need(self, dotted: str) -> tuple[str, list[Edit]]:
        need = needed(self.source, dotted)
        return need.expression, need.edits

    def moved(self, block: list[ast.stmt]) -> list[str]:
        """The lines of a block one step inside of a new function, which starts at no indentation."""
        if not block:
            return []
        unit, old = self.source.indent_unit, self.source.indent_of(block[0])
        start, end = self.source.range_of(block[0])[0], self.source.range_of(block[-1])[1]
        lines = self.source.between((start[0], 0), end).splitlines()
        if self.source.between((start[0], 0), start).strip():
            # The block stands on the line of its head.
            lines = [self.source.between(start, end)]
            old = ""
        return [unit + line.removeprefix(old) if line.strip() else "" for line in lines]

    @cached_property
    def calls(self) -> list[Any]:
        """The spans of the call path, outermost first, the finding's own last."""
        path = list(getattr(self.finding, "call_path", ()) or ())
        if not path:
            path = [r.span for r in self.finding.related if getattr(r, "kind", "") == "call" and r.span is not None]
        if not path or path[-1] != self.finding.span:
            path.append(self.finding.span)
        return path


@dataclass(frozen=True)
class Recipe:
    """One entry of the table of recipes; ``draft`` returns None, one or several drafts (best first).
    ``assumes`` is what its fixes take for granted, where a draft's ``hazard`` does not say more: they are offered with
    it, and not applied by themselves. Only fixes that leave code as it is, or are right by its form for whatever a
    model is made of and called with, do without."""

    id: str
    kind: str
    draft: Callable[[Site], Draft | list[Draft] | None]
    doc: str
    assumes: str | None = None


RECIPES: dict[str, Recipe] = {}


def recipe(id: str, kind: str = "rewrite", assumes: str | None = None) -> Callable:
    """Register a recipe under an id that rules name.

    Raises:
        ValueError: the id is taken.
    """

    def register(function: Callable[[Site], Draft | list[Draft] | None]) -> Callable:
        if id in RECIPES:
            raise ValueError(f"recipe {id!r} is already {RECIPES[id].draft.__qualname__}; choose another id")
        RECIPES[id] = Recipe(id, kind, function, function.__doc__ or "", assumes)
        return function

    return register
