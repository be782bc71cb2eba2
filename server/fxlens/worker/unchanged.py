"""Finds the models of a kept file that an edit cannot have changed, so that their results are still valid.

A rehearsal traces the file once more when idle and records which functions run for each model. After an edit, a model
is unchanged if none of its functions has changed and the models that contain it pass it the same inputs; its line
numbers may differ.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from fxlens.ipc.protocol import Json
from fxlens.sources import positions, targets
from fxlens.sources.files import state_of

from . import isolation, kept, moves, user_file
from .scope import class_named

if TYPE_CHECKING:
    from fxlib.diagnosis.fixes.loaded import Loaded

_WORDS = re.compile(r"[^\W\d]\w*")


class Nothing:
    """For files without a rehearsal."""

    def watching(self) -> AbstractContextManager[None]:
        """Entered around the whole trace. Raises NotKept if user code prevents recording."""
        return nullcontext()

    def still(self, models: list[targets.Target], own_device: bool) -> set[str]:
        """The models that are unchanged regardless of the others."""
        return set()

    def once(self, name: str) -> Json | None:
        """The record of a model that is unchanged if the models that contain it construct and call it as before; None
        for others."""
        return None

    def during(self, name: str, building: bool = False) -> AbstractContextManager[None]:
        """Records what runs for the model."""
        return nullcontext()

    def apart(self) -> AbstractContextManager[None]:
        """Pauses recording, for calls that are compared instead."""
        return nullcontext()

    def built(self, name: str, module: Any) -> None:
        """Records the model's submodules."""

    def called(self, name: str, said: Json) -> None:
        """Records how the model was constructed and called."""


class Rehearsal(Nothing):
    """Records the dependencies of each model."""

    def __init__(self, path: str, text: str, tree: ast.Module, namespace: ModuleType) -> None:
        isolation.step_back()
        self._path, self._text = path, text
        parts = moves.parts(tree)
        self._units, self._inside, self._style = [part.unit for part in parts], moves.inside(tree), _style(text, parts)
        self._own = {each for each in vars(namespace).values() if isinstance(each, type)}
        self._classes = {}
        for name, node in targets.classes(tree):
            self._classes[name] = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if "." in name:
                self._own.add(class_named(namespace, name))
        self._noted: dict[str, _Noted] = {}
        self._into: tuple[set[int], ...] = ()

    def watching(self) -> AbstractContextManager[None]:
        return kept.noting(self._path, self)

    def __setitem__(self, _: int, code: CodeType) -> None:
        for lines in self._into:
            lines.add(code.co_firstlineno)

    def still(self, models: list[targets.Target], own_device: bool) -> set[str]:
        for name, asked in _asked(self._path, models, own_device).items():
            self._noted[name] = _Noted(asked, {name})
        return set()

    @contextmanager
    def during(self, name: str, building: bool = False) -> Iterator[None]:
        noted = self._noted[name]
        with self._noting(noted.ran, *([noted.built] if building else [])):
            yield

    def apart(self) -> AbstractContextManager[None]:
        return self._noting()

    @contextmanager
    def _noting(self, *into: set[int]) -> Iterator[None]:
        before, self._into = self._into, into
        try:
            yield
        finally:
            self._into = before

    def built(self, name: str, module: Any) -> None:
        kinds = {type(each) for each in module.modules()}
        noted = self._noted[name]
        noted.holds = {kind.__qualname__ for kind in kinds if kind in self._own} - {name}
        noted.classes |= {base.__qualname__ for kind in kinds for base in kind.__mro__ if base in self._own}

    def called(self, name: str, said: Json) -> None:
        self._noted[name].called = said

    def learnt(self, known: Loaded) -> Json:
        """The data for `Earlier`; ``known`` are the modules loaded before the file was executed."""
        files = user_file.states(known, self._path)
        noted = {
            name: {
                "asked": each.asked, "holds": sorted(each.holds), "called": each.called,
                "built": self._units_of(each.built),
                "ran": self._units_of(each.ran.union(*(self._classes.get(name, ()) for name in each.classes))),
            }
            for name, each in self._noted.items()
        }  # fmt: skip
        return {
            "text": self._text, "units": self._units, "inside": sorted(self._inside), "files": files, "targets": noted,
            "printed": kept.printed(), "style": self._style,
        }  # fmt: skip

    def _units_of(self, lines: Iterable[int]) -> list[int]:
        ends = [last for _, last, _ in self._units]
        return sorted({bisect_left(ends, line) for line in lines})


@dataclass
class _Noted:
    """The record of one model: its given constructions and inputs, the lines of the functions that ran, and of those
    that ran to construct it."""

    asked: str
    classes: set[str]
    ran: set[int] = field(default_factory=set)
    built: set[int] = field(default_factory=set)
    holds: set[str] = field(default_factory=set)
    called: Json | None = None


class Earlier(Nothing):
    """The records of a rehearsal, seen after an edit."""

    def __init__(self, path: str, learnt: Json, now: moves.Moves, text: str) -> None:
        self._path, self._text, self._text_before = path, text, learnt["text"]
        self._targets: dict[str, Json] = learnt["targets"]
        self._said: dict[str, Json] = learnt["said"]
        self._ends = [last for _, last, _ in learnt["units"]]
        self._now = now
        self.stretches = now.stretches()
        self._again: set[str] = set()

    def still(self, models: list[targets.Target], own_device: bool) -> set[str]:
        before = {new: old for old, new in self._now.lines.items()}
        asked = _asked(self._path, models, own_device, before)
        known = {name: each for name, each in self._targets.items() if name in asked}
        again = {name for name, said in asked.items() if self._touched(name, said)}
        looked_at: set[str] = set()
        while again:
            looked_at = again.union(*(self._parts(name, set(known)) for name in again))
            # The inputs of its parts are known only after its trace.
            more = {
                name for name, each in known.items()
                if not looked_at.isdisjoint(each["holds"])
                and not (each["called"] and each["called"]["given"] and not each["called"]["searched"])
            }  # fmt: skip
            if more <= again:
                break
            again |= more
        self._again = again
        return {
            name for name, each in known.items() if name not in looked_at and looked_at.isdisjoint(each["holds"])
        }  # fmt: skip

    def _touched(self, name: str, asked: str) -> bool:
        before, said = self._targets.get(name), self._said.get(name)
        if before is None or said is None or before["asked"] != asked:
            return True
        return not self._now.changed.isdisjoint(before["ran"]) or not self._tellable(said)

    def _tellable(self, said: Json) -> bool:
        """Whether a model's results can be reused with other line numbers."""
        fixed = {bisect_left(self._ends, line) for line in said["edits"]}
        return (
            self._now.lines.keys() >= set(said["lines"])
            and self._now.respaced.isdisjoint(fixed)
            and (not said["words"] or self._words.isdisjoint(said["words"]))
            and not (said["spells"] and self.stretches)
        )

    @cached_property
    def _words(self) -> set[str]:
        """Names that were added or removed."""
        return {*_WORDS.findall(self._text_before)} ^ {*_WORDS.findall(self._text)}

    def _parts(self, name: str, all_names: set[str]) -> set[str]:
        """The models that this one may contain."""
        before = self._targets.get(name)
        if before is None or not self._now.changed.isdisjoint(before["built"]):
            return all_names
        return set(before["holds"])

    def once(self, name: str) -> Json | None:
        called = None if name in self._again else self._targets[name]["called"]
        return called and {
            **called,
            **{part: self._on_line(called[part]) for part in ("construct", "inputs") if called[part]},
        }

    def _on_line(self, origin: Json) -> Json:
        """An origin in the record, with its current line."""
        return {**origin, "line": self._now.lines.get(origin["line"])} if origin["file"] is None else origin


def _asked(
    path: str, models: Iterable[targets.Target], own_device: bool, before: Mapping[int, int] | None = None
) -> dict[str, str]:
    """The candidates for its models from this file and others, as text, with the lines of ``before``."""

    def line(number: int | None) -> Any:
        return number if before is None or number is None else before.get(number)

    def placed(sources: list[targets.Source]) -> list[targets.Source]:
        return [
            replace(each, line=None if each.file else line(each.line)) if each.file in (None, path) else each
            for each in sources
        ]

    return {
        each.name: repr((
            replace(
                each, line=line(each.line), end_line=line(each.end_line), first_line=line(each.first_line),
                last_line=line(each.last_line), construct=placed(each.construct), inputs=placed(each.inputs),
                partial=placed(each.partial),
            ),
            own_device,
        ))
        for each in models
    }  # fmt: skip


def earlier(path: str, learnt: Json | None, text: str, parts: list[moves.Part]) -> Earlier | None:
    """The part of a rehearsal that is still valid; None if too much has changed."""
    if learnt is None or any(state_of(path) != _state(each) for path, each in learnt["files"].items()):
        return None
    before = learnt["text"]
    now = moves.between(before, [tuple(each) for each in learnt["units"]], {*learnt["inside"]}, text, parts)
    if now is None or _style(text, parts) != learnt["style"]:
        return None
    return Earlier(path, learnt, now, text)


def _style(text: str, parts: list[moves.Part]) -> list[object]:
    """What fixes do as the text does: which quotes it prefers, how its lines end, and how far it indents."""
    return [text.count("'") > text.count('"'), positions.line_end(text), _indentation(text, parts)]


def _indentation(text: str, parts: list[moves.Part]) -> str:
    """That of the first function or class whose body is indented."""
    lines = positions.lines_of(text)
    for number, part in enumerate(parts):
        node: Any = part.nodes[0] if part.nodes and part.unit[2] else None
        if part.classes or not (part.is_head or node):
            continue
        row = lines[(parts[number + 1].begins if part.is_head else node.body[0].lineno + part.moved) - 1]
        if indentation := row[: len(row) - len(row.lstrip())]:
            return indentation
    return ""


def _state(sent: Any) -> object:
    return tuple(sent) if isinstance(sent, list) else sent
