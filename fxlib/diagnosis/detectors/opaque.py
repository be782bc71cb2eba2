"""FX242, and FX222 within such functions: what a call that the graph shows as one node does beside giving a tensor."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.capture.wrapping import unwrapped
from fxlib.diagnosis.detectors.graph_checks import base_of
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.reads import doubts
from fxlib.diagnosis.engine.results import is_never_none
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.writes import Writes, writes_of
from fxlib.ir.node import Node

__all__ = ["ON_GRAPH", "asked", "doubts_of"]

_PICKS = (operator.getitem, getattr)


def _function(node: Node) -> FunctionType | None:
    """The user's function that a node calls, if it is one that torch.fx was told to wrap."""
    function = inspect.unwrap(unwrapped(node.target)) if node.op == "call_function" and callable(node.target) else None
    return function if isinstance(function, FunctionType) and node.meta.get("is_wrapped") else None


def _origin(node: Node) -> tuple[FunctionType, Node, Any] | None:
    """The wrapped function that a value comes from, its call, and which of its results it is: None for the whole."""
    at, item = node, None
    while (
        at.args
        and isinstance(at.args[0], Node)
        and (
            (at.op == "call_function" and at.target in _PICKS)
            or (at.op == "call_method" and not hasattr(torch.Tensor, str(at.target)))
        )
    ):
        at, item = at.args[0], at.args[1] if len(at.args) > 1 else ""
    function = _function(at)
    return None if function is None else (function, at, item)


def asked(run: Run, place: Place, value: Any, none: bool = False) -> bool:
    """Whether it is a question about the result of a wrapped function, which Python answers while tracing, and where
    the function gives something else there is another answer; ``none``: whether it is None."""
    origin = _origin(value.node) if isinstance(value, Proxy) else None
    if origin is None:
        return False
    function, call, item = origin
    if none and is_never_none(function, dict(_given(function, call)), item):
        return False
    name = function.__name__
    says = f"`{place.text}` is decided while tracing, and `{name}`, one call in the graph, may give something else"
    facts: dict[str, Any] = {"node": value.node.name, "data": {"function": name}}
    run.add("FX242", place, says, severity="info", detail=f"Decide it in `{name}`", **facts)
    return True


def changes(search: Search) -> None:
    """Functions that write into what tracing gives them once, or as a copy."""
    run = search.best
    known: dict[FunctionType, Writes] = {}
    for node in run.nodes:
        function = _function(node)
        if function is None:
            continue
        writes = known.get(function) or known.setdefault(function, writes_of(function))
        once: set[str] = set()
        name, place = function.__name__, run.place_of_node(node)
        facts: dict[str, Any] = {"node": node.name, "data": {"function": name}}
        for parameter, value in _given(function, node):
            if parameter in writes.tensors and any(_is_constant(run, each) for each in _tensors(value)):
                says = f"`{name}` writes into a constant of the graph, so the change persists into later calls"
                run.add("FX222", place, says, **facts)
            held = _container(value)
            if held is not None or any(_is_constant(run, each) for each in _tensors(value)):
                once.add(parameter)
            if held is not None and parameter in writes.containers:
                kind = "dictionary" if isinstance(held, dict) else "list"
                says = f"`{name}` changes its `{parameter}`, and the graph gives it a new {kind} in each call"
                run.add("FX242", place, says, **facts)
            elif isinstance(value, list) and parameter in writes.extended:
                says = f"`{name}` extends its `{parameter}`, and the graph gives it a new list in each call"
                run.add("FX242", place, says, severity="info", **facts)
        run.notes.hidden.append((function, node, frozenset(once)))
        if (beside := _beside(run, node, place, writes)) is not None:
            says, detail = beside
            run.add("FX242", place, f"`{name}` {says}", severity="info", detail=detail, **facts)


def _beside(run: Run, node: Node, place: Place | None, writes: Writes) -> tuple[str, str] | None:
    """What a call does otherwise in a normal run than in the graph, and what helps."""
    if writes.state:
        read = f"changes `{min(writes.state)}`, and code that reads it is run only while tracing"
        return read, "Read it in a wrapped function, too"
    if (kind := run.tracer.altered.get(node)) is not None:
        given = f"gets a `{kind.__name__}` in a normal run, and a plain container in the graph"
        return given, "Take the values out of it before the call"
    if place is not None and run.catcher(place, None) is not None:
        raised = "is one call in the graph, which has no handler: where it raises, the graph raises"
        return raised, "Handle the exception in the function"
    return None


def doubts_of(hidden: list[tuple[FunctionType, Node, frozenset[str]]]) -> list[str]:
    """What wrapped functions may do beside, where their text does not show that they do not."""
    found: dict[str, None] = {}
    for function, once in dict.fromkeys((function, once) for function, _, once in hidden):
        found.update(dict.fromkeys(doubts(function, set(once))))
    for function, node, _ in hidden:
        if not is_never_none(function, dict(_given(function, node))):
            found[f"`{function.__name__}` may give None, and nobody sees who asks for that"] = None
    return list(found)


def _given(function: FunctionType, node: Node) -> Iterator[tuple[str, Any]]:
    try:
        bound = inspect.signature(function).bind(*node.args, **node.kwargs)
    except (TypeError, ValueError):
        return
    yield from bound.arguments.items()


def _container(value: Any) -> list[Any] | dict[Any, Any] | None:
    """A list or dictionary that a value is, or is a tuple of."""
    if isinstance(value, list | dict):
        return value
    return next(filter(None.__ne__, map(_container, value)), None) if isinstance(value, tuple) else None


def _tensors(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


def _is_constant(run: Run, node: Node) -> bool:
    base = base_of(run, node)
    return isinstance(base, Node) and base.op == "get_attr" and str(base.target).startswith("_tensor_constant")


ON_GRAPH = (changes,)
