"""FX242, and FX222 within such functions: what a call that the graph shows as one node does beside giving a tensor."""

from __future__ import annotations

import ast
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
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import function_tree, text_of
from fxlib.diagnosis.engine.writes import writes_of
from fxlib.ir.node import Node

__all__ = ["ON_GRAPH", "asked"]

_VALUES = (
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.JoinedStr,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
)
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
    if origin is None or (none and _is_never_none(*origin)):
        return False
    function = origin[0]
    name = function.__name__
    says = f"`{place.text}` is decided while tracing, and `{name}`, one call in the graph, may give something else"
    run.add("FX242", place, says, severity="info", node=value.node.name, data={"function": name})
    return True


def _is_never_none(function: FunctionType, call: Node, item: Any) -> bool:
    """Whether each result of a function, or each of its results at one place, is a value by its text."""
    tree = function_tree(function.__code__)
    if tree is None or not isinstance(tree.body[-1], ast.Return):
        return False
    given = {name: value is not None for name, value in _given(function, call)}
    parameters = {each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg)}
    nodes = [each for each in ast.walk(tree) if not isinstance(each, ast.Lambda)]
    values: dict[str, list[ast.AST]] = {}
    for each in nodes:
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(each.value)

    def is_value(node: ast.AST | None, depth: int = 4) -> bool:
        if isinstance(node, ast.Constant):
            return node.value is not None
        if isinstance(node, ast.IfExp):
            return is_value(node.body) and is_value(node.orelse)
        if isinstance(node, ast.Name):
            known = values.get(node.id, [])
            there = given.get(node.id, bool(known) and node.id not in parameters)
            return there and depth > 0 and all(is_value(each, depth - 1) for each in known)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return hasattr(torch.Tensor, node.func.attr) or text_of(node.func).startswith(("torch.", "F."))
        return isinstance(node, _VALUES)

    for each in nodes:
        if isinstance(each, ast.Return):
            value = each.value
            if item is not None:
                several = value.elts if isinstance(value, ast.Tuple) else []
                there = isinstance(item, int) and -len(several) <= item < len(several)
                value = several[item] if there else None
            if not is_value(value):
                return False
    return True


def changes(search: Search) -> None:
    """Functions that write into what tracing gives them once, or as a copy."""
    run = search.best
    for node in run.nodes:
        function = _function(node)
        if function is None:
            continue
        writes = writes_of(function)
        name, place = function.__name__, run.place_of_node(node)
        facts: dict[str, Any] = {"node": node.name, "data": {"function": name}}
        for parameter, value in _given(function, node):
            if parameter in writes.tensors and any(_is_constant(run, each) for each in _tensors(value)):
                says = f"`{name}` writes into a constant of the graph, so the change persists into later calls"
                run.add("FX222", place, says, **facts)
            held = _container(value)
            if held is not None and parameter in writes.containers:
                kind = "dictionary" if isinstance(held, dict) else "list"
                says = f"`{name}` changes its `{parameter}`, and the graph gives it a new {kind} in each call"
                run.add("FX242", place, says, **facts)
            elif isinstance(value, list) and parameter in writes.extended:
                says = f"`{name}` extends its `{parameter}`, and the graph gives it a new list in each call"
                run.add("FX242", place, says, severity="info", **facts)
        if writes.state:
            says = f"`{name}` changes `{min(writes.state)}`, and code that reads it is run only while tracing"
            run.add("FX242", place, says, severity="info", **facts)
        elif (other := run.tracer.altered.get(node)) is not None:
            says = f"`{name}` gets a `{other.__name__}` in a normal run, and a plain container in the graph"
            run.add("FX242", place, says, severity="info", **facts)
        elif place is not None and run.catcher(place, None) is not None:
            says = f"`{name}` is one call in the graph, which has no handler: where it raises, the graph raises"
            run.add("FX242", place, says, severity="info", **facts)


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
