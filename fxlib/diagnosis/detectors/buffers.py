"""FX241: buffers that forward reads as plain numbers, which a graph keeps from the trace."""

from __future__ import annotations

import ast
import time
from typing import Any

import torch
from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.moments import differ
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.place import within
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of

__all__ = ["AT_PROBES", "LAST", "LOOKERS"]

_SECONDS = 1.0
_METHODS, _FUNCTIONS = frozenset({"item", "tolist", "numpy"}), frozenset({"float", "int", "bool"})


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    if isinstance(function, ast.Attribute):
        reads = function.attr in _METHODS and not node.args
    else:
        reads = getattr(function, "id", None) in _FUNCTIONS and len(node.args) == 1
    if reads:
        found.append(("number", node))


def _look_test(node: Any, found: Found) -> None:
    test = node.test
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    # The mode has a rule of its own.
    if isinstance(test, (ast.Attribute, ast.Compare, ast.Subscript)) and getattr(test, "attr", "") != "training":
        found.append(("number", test))


def read(run: Run, probe: Probe, value: Any) -> None:
    """Collects such reads, for `numbers`: what a call gives Python, and tensors that are conditions."""
    root = run.subject.root
    if not isinstance(root, nn.Module) or isinstance(value, Proxy):
        return
    if not isinstance(probe.node, ast.Call) and not isinstance(value, torch.Tensor):
        return
    buffers = {id(each) for each in root.buffers()}
    if not buffers:
        return
    frame = users_frame()
    with run.aside():
        parts = (constant(each, frame) for each in ast.walk(probe.node) if isinstance(each, ast.Attribute))
        found = any(id(each) in buffers for each in parts)
    if found:
        run.notes.numbers.setdefault(probe.span, run.place_of_probe(probe))


def numbers(search: Search) -> None:
    """FX241: with another number the graph differs."""
    run, end = search.best, time.thread_time() + _SECONDS
    read = run.notes.numbers
    for span, place in read.items():
        if any(other is not span and within(span, other) for other in read):
            continue  # the whole is reported
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
