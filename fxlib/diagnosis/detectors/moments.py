"""Values that vary between calls and that a trace freezes: the time, an id, an iterator's next item, the stack, whether
a trace is going on."""

from __future__ import annotations

import ast
import datetime
import itertools
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from fxlib.diagnosis.detectors.comparisons import signature
from fxlib.diagnosis.engine.forms import MOMENTS, called_name
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of
from fxlib.ir.objects import attribute
from fxlib.ir.span import Span

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "differ"]

_SECONDS = 1.0
_HOMES = frozenset(
    {
        "time",
        "datetime",
        "uuid",
        "posix",
        "nt",
        "secrets",
        "builtins",
        "inspect",
        "sys",
        "torch.fx._symbolic_trace",
        "torch",
        "torch._C",
    }
)


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    of_torch = getattr(getattr(function, "value", None), "id", None) == "torch"
    if name in MOMENTS and (not of_torch or name.startswith("is_")):
        found.append(("moment", node))
    found.extend(("moment", each.value) for each in node.keywords if getattr(each.value, "id", None) == "id")


def moment(run: Run, probe: Probe, value: Any) -> None:
    """Collects calls whose result varies, for `moments`."""
    node, frame = probe.node, users_frame()
    if isinstance(node, ast.Call):
        function = constant(node.func, frame)
        home = attribute(function, "__module__") or attribute(attribute(function, "__self__"), "__module__")
        if home not in _HOMES or (function is next and not _outlives(node, frame)):
            return
    elif value is not id:
        return
    run.notes.moments.setdefault(probe.span, run.place_of_probe(probe))


def _outlives(call: ast.Call, frame: FrameType | None) -> bool:
    """Whether the iterator of ``next`` exists before and after the call of forward."""
    at: Any = call.args[0] if call.args else None
    attribute = isinstance(at, ast.Attribute)
    while isinstance(at, ast.Attribute):
        at = at.value
    if not isinstance(at, ast.Name) or frame is None:
        return False
    local = frame.f_code.co_varnames + frame.f_code.co_cellvars
    return at.id not in local or (attribute and at.id == "self")


def moments(search: Search) -> None:
    """FX206: with another time, id or item the graph differs."""
    run = search.best
    places = run.notes.moments
    if not places or not run.complete or run.graph is None:
        return
    drawn = any(each.code == "FX206" for each in run.findings)
    if drawn and differ(_at(search, places, 8), _at(search, places, 8)):
        return  # the graph differs in every trace anyway
    end = time.thread_time() + _SECONDS
    if not _change_graph(search, places):
        return
    alone = [span for span in places if time.thread_time() > end or _change_graph(search, [span])]
    for span in alone or places:
        place = places[span]
        name = called_name(place.node).rpartition(".")[2]
        says = f"`{text_of(place.node)}` runs once, while tracing, so every call of the graph uses that value"
        advice = "Pass the value as an argument, or take it in a wrapped function"
        if name in ("stack", "currentframe", "_getframe", "is_fx_tracing"):
            says = f"`{text_of(place.node)}` gives another result while tracing, so the graph keeps the wrong branch"
            advice = "Do not use it in forward"
        run.add("FX206", place, says, detail=advice)


def _change_graph(search: Search, spans: Iterable[Span]) -> bool:
    """Whether other values there change the graph. They are tried in ascending and in descending order."""
    runs = [search.best, _at(search, spans, 8), _at(search, spans, -8)]
    return any(differ(one, two) for one, two in itertools.combinations(runs, 2))


def _at(search: Search, spans: Iterable[Span], step: int) -> Run | None:
    """A run with other values for these calls."""
    search.subject.snapshot.restore()
    another = search.once_more(
        flipped=frozenset(spans), other=_Another(1_000_003.25 if step > 0 else 2_000_001.5, step)
    )
    search.subject.snapshot.restore()
    return another


class _Another:
    """Other possible results of such calls, also outside of a trace. Numbers start at ``start`` and go in ``step``s;
    equal ones stay equal."""

    def __init__(self, start: float, step: int) -> None:
        self.start, self.step = start, step
        self._numbers: dict[Any, float] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float)):
            number = self._numbers.setdefault(value, self.start + self.step * len(self._numbers))
            return number if isinstance(value, float) else int(number)
        if isinstance(value, (str, bytes, list)):
            return value[1:]
        if isinstance(value, uuid.UUID):
            return uuid.UUID(int=~value.int % (1 << 128))
        if isinstance(value, datetime.date):
            # Each part differs, also from that of another step a moment later.
            each = self.step
            return value + datetime.timedelta(days=50 * each, hours=each, minutes=each, seconds=each)
        if isinstance(value, FrameType):
            return _normal_frame()
        return (lambda thing: self(id(thing))) if value is id else value


class _Caller(torch.nn.Module):
    def forward(self) -> FrameType:
        return sys._getframe(1)


def _normal_frame() -> Any:
    """The frame that calls forward in a normal run."""
    caller: Any = _Caller()
    return caller()


def differ(one: Run | None, two: Run | None) -> bool:
    """Whether two runs were complete and their graphs or constants differ."""
    if one is None or two is None:
        return False
    if signature(one) != signature(two):
        return True
    constants = zip(_constants(one), _constants(two), strict=False)
    return any(a.shape != b.shape or a.dtype != b.dtype or not _equal(a, b) for a, b in constants)


def _constants(run: Run) -> Iterator[torch.Tensor]:
    names = {str(node.target) for node in run.nodes if node.op == "get_attr"}
    for value, name in run.tracer.tensor_attrs.items():
        if name in names and isinstance(value, torch.Tensor):
            yield value


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one is two or one.is_meta or two.is_meta:
        return True
    return (
        bool(((one == two) | (one.isnan() & two.isnan())).all()) if one.is_floating_point() else torch.equal(one, two)
    )


AT_PROBES = {"moment": moment}
LOOKERS: Lookers = {ast.Call: [_look_call]}
LAST = (moments,)
