"""FX242, and FX222 within such functions: what a call that the graph shows as one node does beside giving a tensor."""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Iterator
from inspect import getattr_static
from types import FunctionType
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.capture.wrapping import unwrapped
from fxlib.diagnosis.detectors.graph_checks import base_of
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.reads import doubts
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import function_tree, text_of
from fxlib.diagnosis.engine.writes import Writes, writes_of
from fxlib.ir.node import Node

__all__ = ["ON_GRAPH", "asked", "doubts_of"]

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
_MODULES = ("torch.", "F.", "nn.functional.", "np.", "numpy.", "math.")
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


def _is_never_none(function: FunctionType, call: Node | None, item: Any) -> bool:
    """Whether each result of a function, or each of its results at one place, is a value by its text."""
    tree = function_tree(function.__code__)
    if tree is None or not _ends(tree.body):
        return False
    given = {name: value is not None for name, value in _given(function, call)} if call is not None else {}
    parameters = {each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg)}
    values: dict[str, list[ast.AST]] = {}
    results: list[ast.AST | None] = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign | ast.For):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                known = each.value if isinstance(each, ast.Assign) and isinstance(target, ast.Name) else ast.Tuple([])
                for name in (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)):
                    values.setdefault(name, []).append(known)
        elif isinstance(each, ast.Return):
            results.append(each.value)

    def is_value(node: ast.AST | None, seen: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, ast.Constant):
            return node.value is not None
        if isinstance(node, ast.IfExp):
            return is_value(node.body, seen) and is_value(node.orelse, seen)
        if isinstance(node, ast.BoolOp):
            return is_value(node.values[-1], seen)
        if isinstance(node, ast.Attribute | ast.Subscript | ast.NamedExpr):
            return is_value(node.value, seen)
        if isinstance(node, ast.Name):
            known = values.get(node.id, [])
            there = given.get(node.id, True) if node.id in parameters else bool(known)
            return there and (node.id in seen or all(is_value(each, seen | {node.id}) for each in known))
        if isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if hasattr(torch.Tensor, named) or named == "apply" or text_of(node.func).startswith(_MODULES):
                return True
            called = _resolved(function, node.func)
            if isinstance(called, FunctionType):
                installed = is_installed(called.__code__.co_filename)
                return installed or called is function or _is_never_none(called, None, None)
            return callable(called)  # a class, or a function of Python's
        return isinstance(node, _VALUES)

    for value in results:
        if item is not None:
            several = value.elts if isinstance(value, ast.Tuple) else []
            there = isinstance(item, int) and -len(several) <= item < len(several)
            value = several[item] if there else None
        if not is_value(value):
            return False
    return True


def _ends(block: list[ast.stmt]) -> bool:
    """Whether a block is always left by returning or raising."""
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return _ends(last.body) if isinstance(last, ast.With) else isinstance(last, ast.Return | ast.Raise)


def _resolved(function: FunctionType, node: ast.AST) -> Any:
    """What a dotted name of a function's file is."""
    if isinstance(node, ast.Attribute):
        return getattr_static(_resolved(function, node.value), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    found = function.__globals__.get(node.id, getattr(builtins, node.id, None))
    return unwrapped(found) if callable(found) else found


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
        if writes.state:
            says = f"`{name}` changes `{min(writes.state)}`, and code that reads it is run only while tracing"
            run.add("FX242", place, says, severity="info", **facts)
        elif (other := run.tracer.altered.get(node)) is not None:
            says = f"`{name}` gets a `{other.__name__}` in a normal run, and a plain container in the graph"
            run.add("FX242", place, says, severity="info", **facts)
        elif place is not None and run.catcher(place, None) is not None:
            says = f"`{name}` is one call in the graph, which has no handler: where it raises, the graph raises"
            run.add("FX242", place, says, severity="info", **facts)


def doubts_of(hidden: list[tuple[FunctionType, Node, frozenset[str]]]) -> list[str]:
    """What wrapped functions may do beside, where their text does not show that they do not."""
    found: dict[str, None] = {}
    for function, once in dict.fromkeys((function, once) for function, _, once in hidden):
        found.update(dict.fromkeys(doubts(function, set(once))))
    for function, node, _ in hidden:
        if not _is_never_none(function, node, None):
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
