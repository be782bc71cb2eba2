"""What forward did to the module itself: attributes, buffers, proxies that stay on it."""

from __future__ import annotations

import ast
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.snapshot import Change

__all__ = ["ON_GRAPH"]


def changed(search: Search) -> None:
    """FX208 to FX210: the module differs from what it was before the last run. Comes before what restores it."""
    run = search.last
    if run.course.corrections is not None and run.guessed:
        # On a way that nobody may ever take.
        return
    for change in search.subject.snapshot.changes():
        if change.name == "training":
            continue
        place = _assignment(search.subject.instrumentation, change)
        where = f"`self.{change.name}`" + (f" of `{change.path}`" if change.path else "")
        content = list(change.after) if isinstance(change.after, set) else change.after
        traced = any(isinstance(leaf, Proxy) for leaf in pytree.tree_leaves(content))
        if change.kind in ("buffer", "parameter", "data") or isinstance(change.before, nn.Parameter):
            run.add("FX210", place, f"{where} is updated only while tracing, and never by the graph")
        elif traced and _was_buffer(change):
            run.add("FX210", place, f"{where} becomes a Proxy while tracing, and the graph never writes it")
        elif traced:
            run.add("FX209", place, f"After tracing, {where} holds a Proxy instead of a tensor")
        elif change.kind == "attribute":
            run.add("FX208", place, f"{where} changes only while tracing, not when the graph runs")


def _was_buffer(change: Change) -> bool:
    return change.name in change.module._buffers or change.name in change.module._parameters


def _assignment(instrumentation: Instrumentation, change: Change) -> Place | None:
    """The statement that writes the attribute by its name, or else by one that is computed."""
    return _writing(instrumentation, change, False) or _writing(instrumentation, change, True)


def _writing(instrumentation: Instrumentation, change: Change, computed: bool) -> Place | None:
    """The statement that writes the attribute: of the module's own functions, or else of another's."""
    owner = type(change.module)
    elsewhere: Place | None = None
    for function in instrumentation.functions:
        code = instrumentation.own_code(function)
        tree = trees.function_tree(code)
        holder = function.__qualname__.rpartition(".")[0]
        own = any(base.__qualname__ == holder for base in owner.__mro__)
        if tree is None or not (own or elsewhere is None):
            continue
        for node in ast.walk(tree):
            target = _written(node, change.name, computed)
            if target is None:
                continue
            span = trees.span_of(target, code.co_filename)
            if own:
                return Place(span, target, None, (span,))
            if not _on_self(target):
                elsewhere = Place(span, target, None, (span,))
                break
    return elsewhere


def _on_self(target: Any) -> bool:
    """Whether an attribute is of the function's own module."""
    if isinstance(target, ast.Call):
        return getattr(target.func, "id", "") == "setattr" and getattr(target.args[0], "id", "") == "self"
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _written(node: Any, name: str, computed: bool = False) -> Any:
    """The ``self.name`` that a statement or call writes; with ``computed``, also the call of one that is given a name
    which is no text."""
    if isinstance(node, ast.Assign):
        targets: list[Any] = []
        for target in node.targets:
            targets.extend(target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr.endswith("_") or node.func.attr in ("append", "update", "add", "extend"):
            targets = [node.func.value]
        elif node.func.attr in ("register_buffer", "__setattr__") and node.args:
            return node if _may_be(node.args[0], name, computed) else None
        else:
            return None
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr" and len(node.args) == 3:
        return node if _may_be(node.args[1], name, computed) else None
    else:
        return None
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and target.attr == name:
            return target
    return None


def _may_be(text: ast.expr, name: str, computed: bool) -> bool:
    """Whether an expression gives a name: it is that text, or no text at all."""
    return text.value == name if isinstance(text, ast.Constant) else computed


ON_GRAPH = (changed,)
