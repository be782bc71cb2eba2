"""Tracing one model with torch.fx and with fxlib, and finding where they differ."""

from __future__ import annotations

import copy
import re
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

import fxlib

from .models import Entry, on_meta


@dataclass
class Comparison:
    """The result for one model: ``verdict`` is ``traced``, the name of the error's class, or ``not built``."""

    entry: Entry
    verdict: str = "traced"
    nodes: int = 0
    differences: list[str] = field(default_factory=list)
    note: str = ""
    milliseconds: tuple[float, float] = (0.0, 0.0)


def _trace(library: Any, model: torch.nn.Module, concrete_args: dict[str, Any] | None) -> tuple[Any, Any, float]:
    start = time.perf_counter()
    try:
        result, error = library.symbolic_trace(model, concrete_args=concrete_args), None
    except Exception as raised:
        result, error = None, raised
    return result, error, (time.perf_counter() - start) * 1e3


def _plain(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace("fxlib.", "torch.fx.")


def graph_differences(expected: Any, found: Any) -> list[str]:
    """How two graphs differ, node for node: name, opcode, target, arguments, type, users, module stack."""
    differences = []
    ours, theirs = list(found.nodes), list(expected.nodes)
    if len(ours) != len(theirs):
        differences.append(f"{len(theirs)} nodes in torch.fx, {len(ours)} in fxlib")
    for wanted, got in zip(theirs, ours, strict=False):
        for what in ("name", "op", "target", "args", "kwargs", "type", "users"):
            one, two = getattr(wanted, what), getattr(got, what)
            same = one is two if what == "target" else False
            if not same and _plain(one) != _plain(two):
                differences.append(f"{wanted.name}.{what}: {one} in torch.fx, {two} in fxlib")
        stacks = [_plain(node.meta.get("nn_module_stack")) for node in (wanted, got)]
        if stacks[0] != stacks[1]:
            differences.append(f"{wanted.name} nn_module_stack: {stacks[0]} in torch.fx, {stacks[1]} in fxlib")
    return differences


def compare(entry: Entry) -> Comparison:
    """Builds the model once and traces it with both."""
    result = Comparison(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = on_meta(entry.build)
        except Exception as error:
            result.verdict = "not built"
            result.note = f"{type(error).__name__}: {_first_line(error)}"
            return result
        concrete = entry.concrete_args(model)
        # Forward methods, and tracing itself, keep things on the model; both have to find it untouched.
        other = copy.deepcopy(model)
        expected, error, slow = _trace(torch.fx, other, concrete)
        found, our_error, fast = _trace(fxlib, model, concrete)
    result.milliseconds = (slow, fast)
    if error is not None or our_error is not None:
        result.verdict = type(error or our_error).__name__
        if (error is None) != (our_error is None):
            result.differences.append(f"torch.fx: {error!r}; fxlib: {our_error!r}")
        elif type(error).__name__ != type(our_error).__name__:
            result.differences.append(f"torch.fx raises {error!r}, fxlib {our_error!r}")
        elif not _first_line(our_error).startswith(_first_line(error)):
            result.differences.append(f"torch.fx says {_first_line(error)!r}, fxlib {_first_line(our_error)!r}")
        return result
    result.nodes = len(expected.graph.nodes)
    result.differences = graph_differences(expected.graph, found.graph)
    if expected.code != found.code.replace("fxlib._symbolic_trace", "torch.fx._symbolic_trace"):
        result.differences.append("generated code differs")
    if list(expected.state_dict()) != list(found.state_dict()):
        result.differences.append("parameters and buffers differ")
    return result


def _first_line(error: Any) -> str:
    return (str(error).splitlines() or [""])[0]
