"""FX241: buffers that forward reads as plain numbers, which a graph keeps from the trace."""

from __future__ import annotations

import ast
import time
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.detectors.moments import differ
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of

__all__ = ["AT_PROBES", "LAST", "LOOKERS"]

_SECONDS = 1.0
_METHODS, _FUNCTIONS = frozenset({"item", "tolist", "numpy"}), frozenset({"float", "int", "bool"})


def _read(node: ast.expr) -> ast.expr:
    """The expression whose number an expression is: that of a buffer itself where it is a condition."""
    if not isinstance(node, ast.Call):
        return node
    return node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    if isinstance(function, ast.Attribute):
        reads = function.attr in _METHODS and not node.args
    else:
        reads = getattr(function, "id", None) in _FUNCTIONS and len(node.args) == 1
    if reads and isinstance(_read(node), ast.Attribute):
        found.append(("number", node))


def _look_test(node: Any, found: Found) -> None:
    test = node.test
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Attribute) and test.attr != "training":
        found.append(("number", test))


def read(run: Run, probe: Probe, value: Any) -> None:
    """Collects such reads, for `numbers`."""
    root = run.subject.root
    if not isinstance(root, nn.Module):
        return
    with run.aside():
        buffer = constant(_read(probe.node), users_frame())
    if isinstance(buffer, torch.Tensor) and any(buffer is each for each in root.buffers()):
        run.notes.numbers.setdefault(probe.span, run.place_of_probe(probe))


def numbers(search: Search) -> None:
    """FX241: with another number the graph differs."""
    run, end = search.best, time.thread_time() + _SECONDS
    for span, place in run.notes.numbers.items():
        if not run.complete or time.thread_time() > end:
            return
        search.subject.snapshot.restore()
        other = search.once_more(flipped=frozenset({span}), other=_another)
        search.subject.snapshot.restore()
        if differ(run, other):
            run.add(
                "FX241", place, f"`{text_of(place.node)}` is read once, while tracing, so the graph keeps this value"
            )


def _another(value: Any) -> Any:
    """Another number of the same kind."""
    if isinstance(value, (bool, torch.Tensor)):
        return not bool(value)
    if isinstance(value, list):
        return [*map(_another, value)]
    return value + 1


AT_PROBES = {"number": read}
LOOKERS: Lookers = {ast.Call: [_look_call], ast.If: [_look_test], ast.While: [_look_test], ast.IfExp: [_look_test]}
LAST = (numbers,)
