"""Places for errors of torch.export about a whole call: the type of an input or result, or a tensor left in the
module."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxlib.captures import torch_side
from fxlib.captures.isolation import copied, restored
from fxlib.captures.places import file_tree, forward_of, is_users
from fxlib.diagnosis.engine.trees import at_span, span_of
from fxlib.ir import span as spans
from fxlib.ir.span import Span

__all__ = ["asks_for_gradient", "calls_scripted", "forwards", "parameter", "place", "reads_data"]

_TYPE = re.compile(r"<class '([^']+)'>")


def place(error: Exception, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Span | None:
    """The user's expression that an error without a place is about."""
    text = str(error)
    found = _TYPE.search(text)
    if found is not None and "input" in text.partition("\n")[0]:
        return _parameter(module, args, kwargs, found[1])
    if found is not None and "output" in text:
        return _returned(module, args, kwargs)
    exchanged = next(_exchanged(module), None)
    if exchanged is not None or "lifted_tensor" not in text:
        return exchanged
    return next(_data(module), None) or next(_gradients(module), None)


def reads_data(span: Span | None) -> bool:
    """Whether an expression reads `x.data`."""
    tree = file_tree(span.file) if span is not None else None
    node = at_span(tree, span) if tree is not None and span is not None else None
    return isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load)


def _data(module: torch.nn.Module) -> Iterator[Span]:
    """The places where forward reads `.data`, which torch.export does not record."""
    for _, code, tree in forwards(module):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
                yield span_of(node, code.co_filename)


def asks_for_gradient(span: Span | None) -> bool:
    """Whether an expression calls `torch.autograd.grad` or `backward`."""
    tree = file_tree(span.file) if span is not None else None
    return span is not None and tree is not None and _is_gradient(at_span(tree, span))


def _is_gradient(node: ast.AST | None) -> bool:
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called.endswith(("autograd.grad", "autograd.backward", ".backward"))


def _gradients(module: torch.nn.Module) -> Iterator[Span]:
    """The places where forward requests a gradient from autograd."""
    for _, code, tree in forwards(module):
        yield from (span_of(node, code.co_filename) for node in ast.walk(tree) if _is_gradient(node))


def forwards(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, CodeType, ast.FunctionDef]]:
    """The user's own forwards in a module: each class once, with the code and the definition."""
    seen: set[CodeType] = set()
    for each in module.modules():
        function = forward_of(each)
        if function is None or function.__code__ in seen:
            continue
        code = function.__code__
        seen.add(code)
        tree = file_tree(code.co_filename)
        for node in _functions(tree) if tree is not None else ():
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if node.name == code.co_name and first == code.co_firstlineno:
                yield each, code, node


@functools.lru_cache(maxsize=16)
def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _parameter(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], kind: str) -> Span | None:
    """The parameter of forward whose argument has a given type."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    for name, value in bound.items():
        kinds = {f"{type(leaf).__module__}.{type(leaf).__qualname__}" for leaf in pytree.tree_leaves(value)}
        if kind in kinds:
            return parameter(module, name)
    return None


def parameter(module: torch.nn.Module, name: str) -> Span | None:
    """The place where the user's own forward declares a parameter."""
    for each, code, tree in forwards(module):
        if each is module:
            found = (node for node in ast.walk(tree.args) if isinstance(node, ast.arg) and node.arg == name)
            return next((span_of(node, code.co_filename) for node in found), None)
    return None


def _returned(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Span | None:
    """The expression of forward's final `return`."""
    own = next(((code, tree) for each, code, tree in forwards(module) if each is module), None)
    if own is None:
        return None
    lines: list[int] = []

    def in_forward(frame: FrameType, event: str, value: Any) -> Any:
        if event == "return":
            lines.append(frame.f_lineno)
        return in_forward

    def at_call(frame: FrameType, event: str, value: Any) -> Any:
        return in_forward if frame.f_code is own[0] else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        with restored(module), torch_side.quiet():
            module(*copied(args), **copied(kwargs))
    except Exception:
        return None
    finally:
        sys.settrace(before)
    for node in ast.walk(own[1]):
        if not isinstance(node, ast.Return) or node.value is None or not lines:
            continue
        if node.lineno <= lines[-1] <= (node.end_lineno or node.lineno):
            return span_of(node.value, own[0].co_filename)
    return None


def _exchanged(module: torch.nn.Module) -> Iterator[Span]:
    """Assignments in forward that replace a parameter or buffer, or store a tensor in the module."""
    for each, code, tree in forwards(module):
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) else ():
                if isinstance(target, ast.Attribute) and (target.attr == "data" or hasattr(each, target.attr)):
                    yield span_of(target, code.co_filename)


def calls_scripted(traceback: TracebackType | None) -> bool:
    """Whether the user's running expression calls something made by `torch.jit.script`."""
    innermost = None
    while traceback is not None:
        if is_users(traceback.tb_frame.f_code.co_filename):
            innermost = traceback
        traceback = traceback.tb_next
    if innermost is None:
        return False
    span = spans.resolve((innermost.tb_frame.f_code, innermost.tb_lasti, None))
    node = spans.expression(span) if span is not None else None
    if not isinstance(node, ast.Call):
        return False
    called = _value(node.func, innermost.tb_frame)
    return isinstance(called, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a dotted name."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr, None)
    return None
