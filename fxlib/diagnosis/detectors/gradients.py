"""FX240: forward changes which parameters need gradients, which no graph does."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from torch import nn

from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search

__all__ = ["AT_PROBES", "LOOKERS", "ON_GRAPH"]

_NAME = "requires_grad"


def _look_call(node: ast.Call, found: Found) -> None:
    if isinstance(node.func, ast.Attribute) and node.func.attr == f"{_NAME}_":
        found.append(("gradients set", node))


def _look_assign(node: ast.Assign, found: Found) -> None:
    for target in node.targets:
        if isinstance(target, ast.Attribute) and target.attr == _NAME:
            found.append(("gradients given", node.value))
            found.append(("gradients of", target.value))


def given(run: Run, probe: Probe, value: Any) -> None:
    """Keeps the value that is about to be assigned, for `assigned`."""
    run.notes.waiting["gradients", id(probe.node.parent)] = value


def assigned(run: Run, probe: Probe, value: Any) -> None:
    """`parameter.requires_grad = value`."""
    target = probe.node.parent
    needed = run.notes.waiting.pop(("gradients", id(target.parent)), None)
    if isinstance(value, nn.Parameter) and isinstance(needed, bool):
        _note(run, probe, target, [(value, needed)])


def called(run: Run, probe: Probe, value: Any) -> None:
    """`parameter.requires_grad_()`, or that of a module, which it returns."""
    held = [value] if isinstance(value, nn.Parameter) else value.parameters() if isinstance(value, nn.Module) else ()
    _note(run, probe, probe.node, ((each, each.requires_grad) for each in held))


def _note(run: Run, probe: Probe, whole: Any, now: Iterable[tuple[nn.Parameter, bool]]) -> None:
    """Collects what differs from the state before the trace, for `set_back`."""
    before = run.subject.snapshot.needed
    changed = [each for each, needed in now if before.get(each, needed) is not needed]
    if changed:
        run.notes.gradients.append((run.place_of_probe(probe).widened(whole), changed))


def set_back(search: Search) -> None:
    """FX240: what is the same after the trace as before was another in between."""
    run, before = search.best, search.subject.snapshot.needed
    after = dict(zip(before, run.needing, strict=False))
    for place, changed in run.notes.gradients:
        if any(after.get(each) is before[each] for each in changed):
            run.add("FX240", place)


AT_PROBES = {"gradients given": given, "gradients of": assigned, "gradients set": called}
ON_GRAPH = (set_back,)
LOOKERS: Lookers = {ast.Call: [_look_call], ast.Assign: [_look_assign]}
