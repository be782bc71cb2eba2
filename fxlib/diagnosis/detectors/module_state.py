"""Changes that forward makes to the module: attributes, buffers, proxies that stay on it."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.batchnorm import _NormBase

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.graph_checks import writes
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.reach import is_users
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.snapshot import Change
from fxlib.ir.leaves import leaves_once, storages
from fxlib.ir.node import Node
from fxlib.ir.writes import Replacements, Writes

__all__ = ["ON_GRAPH", "changed_by"]


def changed(search: Search) -> None:
    """FX208 to FX210: the module differs from its state before the last run. Must run before the state is restored."""
    run = search.last
    if run.course.corrections is not None and run.guessed:
        # On a path that may never be taken.
        return
    changes = [each for each in search.subject.snapshot.changes() if each.name != "training"]
    # What a cut expression has set was set to find its value, not by the trace.
    changes = [each for each in changes if not isinstance(each.after, FakeTensor)]
    known = {id(change.before) for change in changes}
    unseen = [each for each in search.subject.snapshot.uncounted() if id(each.before) not in known]
    texts = [_assignment(search.subject.instrumentation, change) for change in changes] + [None] * len(unseen)
    changes += unseen
    # Of a buffer that the graph writes, too, the text alone does not show which write is lost.
    recorded = {str(base.target) for _, _, base in writes(search.best)} if changes else set()
    partly = [f"{change.path}.{change.name}".lstrip(".") in recorded for change in changes]
    unclear = [
        change.before
        for change, text, part in zip(changes, texts, partly, strict=True)
        if change.kind == "data" and (text is None or part)
    ]
    written, put_back = _written_at(search, unclear) if unclear else ({}, set())
    known |= written.keys() - put_back
    for change, text, part in zip(changes, texts, partly, strict=True):
        if id(change.before) not in known:
            continue
        place = text if text is not None and not part else written.get(id(change.before), text)
        where = f"`self.{change.name}`" + (f" of `{change.path}`" if change.path else "")
        content = list(change.after) if isinstance(change.after, set) else change.after
        traced = any(isinstance(leaf, Proxy) for leaf in leaves_once(content))
        if part and place is not None and change.kind == "data":
            says = f"`{place.text}` runs only while tracing, so the graph updates {where} without it"
            run.add("FX210", place, says)
        elif change.kind in ("buffer", "parameter", "data") or isinstance(change.before, nn.Parameter):
            run.add("FX210", place, f"{where} is updated only while tracing, and never by the graph")
        elif traced and _was_buffer(change):
            run.add("FX210", place, f"{where} becomes a Proxy while tracing, and the graph never writes it")
        elif traced:
            run.add("FX209", place, f"After tracing, {where} holds a Proxy instead of a tensor")
        elif change.kind == "attribute":
            run.add("FX208", place, f"{where} changes only while tracing, not when the graph runs")


def _was_buffer(change: Change) -> bool:
    return change.name in change.module._buffers or change.name in change.module._parameters


def _written_at(search: Search, tensors: Iterable[torch.Tensor]) -> tuple[dict[int, Place], set[int]]:
    """The places where forward writes to tensors, by tensor id: found by another run, also inside torch functions such
    as `load_state_dict`. And the tensors whose value is set again as a whole after further operations, or whose memory
    is put back: they may be what they were."""
    known = {str(id(each)): each for each in tensors}
    found: dict[int, Place] = {}
    since: dict[int, list[Node]] = {}
    put_back: set[int] = set()

    @contextlib.contextmanager
    def watched(run: Run) -> Iterator[None]:
        memory = {name: storages(each) for name, each in known.items()}

        def about_to(name: str, whole: bool) -> None:
            place = None if run.quiet else run.place()
            if place is None:
                return
            if int(name) in put_back or int(name) not in found:
                since[int(name)] = run.nodes[-1:]
            found.setdefault(int(name), place)
            put_back.discard(int(name))
            if whole and since[int(name)] != run.nodes[-1:]:
                put_back.add(int(name))

        def replaced(tensor: torch.Tensor, other: torch.Tensor) -> None:
            name = str(id(tensor))
            if name not in known or storages(tensor) == (new := storages(other)):
                return
            if new == memory[name]:
                put_back.add(int(name))
            else:
                about_to(name, True)

        operators = Writes(known.items(), lambda name: about_to(name, operators.operator == "copy_"))
        with operators, Replacements(replaced):
            yield

    search.subject.snapshot.restore()
    search.once_more(watched)
    return found, put_back


def _assignment(instrumentation: Instrumentation, change: Change) -> Place | None:
    """The statement that writes the attribute: in the module's own functions, or else in another's; or else one that
    writes an attribute with a computed name."""
    owner = type(change.module)
    elsewhere: Place | None = None
    computed: Place | None = None
    read: Place | None = None
    for function in instrumentation.functions:
        code = instrumentation.own_code(function)
        tree = trees.function_tree(code)
        holder = function.__qualname__.rpartition(".")[0]
        own = any(base.__qualname__ == holder for base in owner.__mro__)
        if tree is None or not (own or elsewhere is None):
            continue
        for node in ast.walk(tree):
            target = _written(node, change.name)
            if target is None:
                name = _name_given(node)
                if computed is None and own and name is not None and not isinstance(name, ast.Constant):
                    span = trees.span_of(node, code.co_filename)
                    computed = Place(span, node, None, (span,))
                if read is None and not own and _named(node, change.name) and not _on_self(node):
                    span = trees.span_of(node, code.co_filename)
                    read = Place(span, node, None, (span,))
                continue
            span = trees.span_of(target, code.co_filename)
            if own:
                return Place(span, target, None, (span,))
            if not _on_self(target):
                elsewhere = Place(span, target, None, (span,))
                break
    return elsewhere or computed or read


def changed_by(instrumentation: Instrumentation, kind: type, name: str) -> str | None:
    """What changes a buffer of a class after the construction: "forward" with what it reaches and torch's own code, or
    "others", which are further methods and functions of the same file."""
    if not is_users(kind) or issubclass(kind, _NormBase):
        return "forward"
    functions = set(instrumentation.functions)
    constructing: list[Any] = []
    for base in filter(is_users, kind.__mro__):
        spaces = vars(base), vars(sys.modules[base.__module__])
        functions.update(each for space in spaces for each in space.values() if isinstance(each, FunctionType))
    found = [(each, tree) for each in functions if (tree := trees.function_tree(instrumentation.own_code(each)))]
    names = {"__init__"}
    while constructing != (constructing := [tree for each, tree in found if each.__name__ in names]):
        names.update(_called(node) for tree in constructing for node in ast.walk(tree))
    reached = {instrumentation.own_code(each) for each in instrumentation.functions}
    changed = None
    for each, tree in found:
        runs = instrumentation.own_code(each) in reached
        if not runs and (changed or each.__name__ in names):
            continue
        # Who registers it anew outside of forward makes another model.
        writes = (node for node in ast.walk(tree) if runs or _name_given(node) is None)
        if any(_written(node, name) is not None for node in writes):
            if runs:
                return "forward"
            changed = "others"
    return changed


def _called(node: Any) -> Any:
    """The name of a function or of a method of ``self`` that a call calls."""
    function = getattr(node, "func", None)
    return getattr(function, "attr" if _on_self(function) else "id", "")


def _named(node: Any, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _on_self(target: Any) -> bool:
    """Whether an attribute is of the function's own module."""
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _written(node: Any, name: str) -> Any:
    """The ``self.name`` that a statement or call writes."""
    if isinstance(node, ast.Assign):
        targets: list[Any] = []
        for target in node.targets:
            targets.extend(target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        targets = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if (given := _name_given(node)) is not None:
            return node if isinstance(given, ast.Constant) and given.value == name else None
        if isinstance(node.func, ast.Attribute) and (called.endswith("_") or called in _CONTAINERS):
            targets.append(node.func.value)
        if called.endswith("_") and _home(node.func) in _HOMES:
            targets += [each for first in node.args[:1] for each in getattr(first, "elts", [first])]
    else:
        return None
    return next((found for each in targets if _named(found := _base(each), name)), None)


def _name_given(node: Any) -> ast.expr | None:
    """The name in `setattr(self, name, value)` and `self.register_buffer(name, value)`."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("register_buffer", "__setattr__") and node.args:
        return node.args[0]
    return node.args[1] if getattr(node.func, "id", "") == "setattr" and len(node.args) == 3 else None


def _base(target: Any) -> Any:
    """The attribute whose memory an expression shares, if its text shows it: ``self.t`` of ``self.t[0]``,
    ``self.t.data`` and ``self.t.view(1, 3)``."""
    while True:
        if isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
            target = target.value
        elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
            target = target.func.value
        else:
            return target


def _home(function: Any) -> str:
    """What an attribute is read from: ``init`` in ``nn.init.ones_``; empty for a name."""
    home = getattr(function, "value", None)
    return "" if home is None else getattr(home, "attr", getattr(home, "id", "-"))


_HOMES = ("", "torch", "init", "functional", "F")
"""Whose functions write to their first argument, if their names end so; a method writes to its own tensor."""
_CONTAINERS = ("append", "update", "add", "extend")

ON_GRAPH = (changed,)
