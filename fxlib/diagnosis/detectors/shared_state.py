"""Changes that forward makes to state outside of the modules: globals, closures, attributes of classes and of plain
objects; and hooks that are added or removed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.moments import differ
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.reach import names_in
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.shared import SharedChange
from fxlib.ir.leaves import leaves_once
from fxlib.ir.span import is_hidden

__all__ = ["LAST"]

_WRITERS = frozenset(
    {"append", "appendleft", "add", "extend", "insert", "update", "setdefault", "pop", "popleft", "remove", "clear"}
)


def changed(search: Search) -> None:
    """FX208 and FX209: a second trace, from the state after the first one, differs; or a proxy stays there, which makes
    a second trace impossible."""
    run, snapshot = search.best, search.subject.snapshot
    changes, hooks = snapshot.shared.changes(), snapshot.changed_hooks()
    if any(each.code == "FX208" for each in run.findings):
        hooks = []  # a hook that changes attributes, too, is known by these
    hooks_after = [dict(each.table) for each in hooks]
    hidden = [] if changes or hooks else [SharedChange(*each, True) for each in _opaque(search)]
    changes = changes or hidden
    if not (changes or hooks) or not run.complete:
        return
    drawn = any(each.code == "FX206" for each in run.findings)
    kept = [change for change in changes if not _leaked(change.after)]
    snapshot.restore(shared=False)
    matters = len(kept) == len(changes) and differ(run, search.once_more())
    snapshot.restore()
    if matters and drawn:
        matters = not differ(run, search.once_more())
        snapshot.restore()
    for change in changes:
        place = _writes(search.subject.instrumentation, change)
        if place is None and (change.of_module or hidden):
            place = _reads(search.subject.instrumentation, change) or search.root_class()
        what = change.name if change.owner is None else f"{change.owner.__name__}.{change.name}"
        if change not in kept:
            run.add("FX209", place, f"After tracing, `{what}` holds a Proxy instead of a tensor")
        elif matters:
            run.add("FX208", place, f"`{what}` changes only while tracing, not when the graph runs")
    for each, after in zip(hooks, hooks_after, strict=True):
        if matters:
            place = _of_hook({**each.before, **after}, each.before.keys() ^ after.keys()) or search.root_class()
            where = f"`{each.path}`" if each.path else "the module"
            run.add("FX208", place, f"The hooks of {where} change only while tracing, not when the graph runs")


def _of_hook(hooks: dict[int, Any], changed: Iterable[int]) -> Place | None:
    """The head of the first hook that was added or removed, in the user's files."""
    for key in changed:
        code = getattr(hooks[key], "__code__", None)
        if code is not None and not is_hidden(code.co_filename) and not is_installed(code.co_filename):
            head = trees.head_of(code)
            return None if head is None else Place(head, None, None, (head,))
    return None


def _opaque(search: Search) -> list[tuple[str, None, Any]]:
    """Attributes of modules that may have changed invisibly, where forward reads them."""
    found = search.subject.snapshot.shared.opaque
    run = search.best
    if not found or run.notes.moments or any(each.code in ("FX206", "FX208") for each in run.findings):
        return []
    read = {name for function in search.subject.instrumentation.functions for name in names_in(function.__code__)}
    return [(name, None, value) for name, value in found.items() if name in read]


def _reads(instrumentation: Instrumentation, change: SharedChange) -> Place | None:
    """The places where the attribute is read."""
    for function in instrumentation.functions:
        code = instrumentation.own_code(function)
        tree = trees.function_tree(code)
        for node in () if tree is None else ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == change.name:
                span = trees.span_of(node, code.co_filename)
                return Place(span, node, None, (span,))
    return None


def _leaked(content: Any) -> bool:
    return any(isinstance(leaf, Proxy) for leaf in leaves_once(content))


def _writes(instrumentation: Instrumentation, change: SharedChange) -> Place | None:
    """The expression that writes the state."""
    for function in instrumentation.functions:
        code = instrumentation.own_code(function)
        tree = trees.function_tree(code)
        names = {*names_in(code), *code.co_freevars, *code.co_varnames}
        if tree is None or change.name not in names:
            continue
        for node in ast.walk(tree):
            for target in _targets(node):
                if _is_of(target, change):
                    span = trees.span_of(target, code.co_filename)
                    return Place(span, target, None, (span,))
    return None


def _targets(node: Any) -> list[Any]:
    if isinstance(node, ast.Assign):
        return [each for target in node.targets for each in getattr(target, "elts", [target])]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITERS:
        return [node.func.value]
    return []


def _is_of(target: Any, change: SharedChange) -> bool:
    """Whether a target is the state, or part of it."""
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        if isinstance(target, ast.Attribute) and target.attr == change.name:
            return change.owner is not None or change.of_module or getattr(target.value, "id", "self") != "self"
        target = target.value
    return isinstance(target, ast.Name) and target.id == change.name


LAST = (changed,)
