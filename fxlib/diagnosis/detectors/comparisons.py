"""Compares the graph with that of a second trace: in the other mode, and without an argument."""

from __future__ import annotations

import ast
import itertools
import time
from collections.abc import Iterable
from typing import Any

from torch import nn

from fxlib.diagnosis.detectors.modes import put
from fxlib.diagnosis.engine.forms import called_name
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of
from fxlib.diagnosis.report import Related
from fxlib.ir.arguments import map_aggregate
from fxlib.ir.modules import hollow_copy
from fxlib.ir.node import Node, map_arg
from fxlib.ir.span import Span

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "difference", "signature"]

_MODE_SECONDS = 1.0
_NAMES = {True: "training", False: "eval"}


def _look_attribute(node: ast.Attribute, found: Found) -> None:
    if node.attr == "training" and isinstance(node.ctx, ast.Load):
        found.append(("training", node))


def _look_text(node: ast.Call | ast.Subscript, found: Found) -> None:
    """Forms that read the attribute by text: `getattr(m, "training")` and `vars(m)["training"]`."""
    named = node.slice if isinstance(node, ast.Subscript) else node.args[1] if len(node.args) > 1 else None
    called = isinstance(node, ast.Subscript) or getattr(node.func, "id", None) == "getattr"
    if called and isinstance(named, ast.Constant) and named.value == "training":
        found.append(("training", node))


def training(run: Run, probe: Probe, value: Any) -> None:
    """Reads of ``training``, for `other_mode`."""
    if isinstance(value, bool):
        run.notes.training.setdefault(probe.span, (run.place_of_probe(probe), value))
        run.bake(probe.span, text_of(probe.node), value)


def other_mode(search: Search) -> None:
    """FX207: a second trace in the other mode differs."""
    run, root, snapshot = search.best, search.subject.root, search.subject.snapshot
    reads = run.notes.training
    if not reads or not isinstance(root, nn.Module) or run.graph is None:
        return
    now = {module: module.training for module in root.modules()}
    for mode in (not root.training, root.training):
        modes = _modes_in(search, mode)
        if modes is None or modes == now:
            continue
        try:
            snapshot.restore()
            for module in now:
                module.training = modes[module]
            other = search.once_more()
        finally:
            for module, before in now.items():
                module.training = before
            snapshot.restore()
        if other is not None and _done(run) != _done(other):
            break
    else:
        return
    here, there = signature(run), signature(other)
    name = _NAMES[mode]
    note = difference(run, name, zip(run.nodes, here, strict=True), zip(other.nodes, there, strict=True))
    for place, value in _decisive(search, reads):
        says = f"`{place.text}` is read only while tracing, so the graph always behaves as in {_NAMES[value]} mode"
        run.add("FX207", place, says, related=(note,))


def _modes_in(search: Search, mode: bool) -> dict[nn.Module, bool] | None:
    """The mode of each module after `train(mode)` of the root; None if that raises."""
    root: Any = search.subject.root
    if not search.subject.sets_own_modes:
        return dict.fromkeys(root.modules(), mode)
    try:
        copy = hollow_copy(root)
        twins = zip(root.modules(), copy.modules(), strict=True)
        return {module: twin.training for module, twin in twins} if put(copy, mode) else None
    except Exception:
        return dict.fromkeys(root.modules(), mode)  # models that cannot be copied


def difference(run: Run, mode: str, here: Iterable[tuple[Node, str]], there: Iterable[tuple[Node, str]]) -> Related:
    """The first difference between two graphs, whose nodes come with their comparison keys."""
    for one, two in itertools.zip_longest(here, there):
        if one is not None and two is not None and one[1] == two[1]:
            continue
        found = (run.place_of_node(each[0]) for each in (one, two) if each is not None)
        place = next((each for each in found if each is not None), None)
        if place is not None:
            what = called_name(place.node) or place.text
            text = f"In {mode} mode the graph first differs at line {place.span.line} (`{what}`)"
            return Related(text, place.span, "value")
    return Related(f"In {mode} mode other parameters need gradients", None, "value")


def _done(run: Run) -> tuple[list[str], list[bool]]:
    """The effect of forward: the graph, and which parameters require gradients afterwards."""
    return signature(run), run.needing


def _decisive(search: Search, reads: dict[Span, tuple[Place, bool]]) -> list[tuple[Place, bool]]:
    """The reads of ``training`` that change the graph if only they return the opposite; all of them if none does, or
    there is no time to try."""
    if len(reads) == 1:
        return list(reads.values())
    decisive = []
    end = time.thread_time() + _MODE_SECONDS
    for span, read in reads.items():
        other = None
        if time.thread_time() < end:
            other = search.once_more(flipped=frozenset({span}))
            search.subject.snapshot.restore()
        if other is None or _done(other) != _done(search.best):
            decisive.append(read)
    return decisive or list(reads.values())


def signature(run: Run) -> list[str]:
    """The key for comparing the graphs of two runs. For layer functions 0 and 0.0 are the same (a rate, say); elsewhere
    they may give another dtype."""
    rows = []
    for node in run.nodes:
        arguments = (node.args, node.kwargs)
        if getattr(node.target, "__module__", None) in ("torch.nn.functional", "torch._C._nn"):
            arguments = map_aggregate(arguments, lambda item: float(item) if type(item) is int else item)
        target = node.target if isinstance(node.target, str) else node._pretty_print_target(node.target)
        rows.append(f"{node.op} {target} {arguments}")
    return rows


def none_matters(search: Search) -> None:
    """FX201 for a graph that is the same with and without the argument: a hint, not a warning."""
    run, snapshot = search.best, search.subject.snapshot
    doubtful = [each for each in run.findings if each.code == "FX201" and each.severity == "warning"]
    if not doubtful or not run.complete or run.graph is None:
        return
    concrete = run.course.concrete_args
    if any(finding.loud for finding in run.findings) or isinstance(concrete, tuple):
        return
    for argument in {str(finding.data["argument"]) for finding in doubtful if finding.data.get("argument")}:
        snapshot.restore()
        other = search.once_more(concrete_args={**(concrete or {}), argument: None})
        snapshot.restore()
        if other is not None and _rows(run.graph, argument) == _rows(other.graph, argument):
            for finding in doubtful:
                if finding.data.get("argument") == argument:
                    message = f"{finding.message}. The graph is the same either way"
                    run.findings.replace(finding, severity="info", message=message)


def _rows(graph: Any, argument: str) -> list[tuple[str, str, str, str]]:
    """The rows of a graph for ``argument`` None, whatever the name of its placeholder."""
    names: dict[Any, Any] = {}
    rows = []
    for node in graph.nodes:
        if node.op == "placeholder":
            own = node.target == argument or str(node.target).rpartition("_")[0] == argument
            names[node] = None if own else node.target
        elif getattr(node.target, "__name__", "") != "_assert_is_none":
            args, kwargs = (map_arg(part, lambda used: names.get(used)) for part in (node.args, node.kwargs))
            rows.append((node.op, str(node.target), repr(args), repr(kwargs)))
            names[node] = f"%{len(rows)}"
    return rows


AT_PROBES = {"training": training}
LOOKERS: Lookers = {ast.Attribute: [_look_attribute], ast.Call: [_look_text], ast.Subscript: [_look_text]}
LAST = (other_mode, none_matters)
