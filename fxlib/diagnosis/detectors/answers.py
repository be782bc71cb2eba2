"""Tests that Python evaluates on a Proxy without torch.fx: identity, type, attributes."""

from __future__ import annotations

import ast
import collections.abc
import enum
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.opaque import asked
from fxlib.diagnosis.engine.forms import called_name, is_none_test
from fxlib.diagnosis.engine.frames import users_frame
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.trees import text_of
from fxlib.diagnosis.engine.values import Unknown, show
from fxlib.ir.objects import has_attribute
from fxlib.shapes import TensorMeta

__all__ = ["AT_PROBES", "LOOKERS", "outer"]

_TYPE_TESTS = frozenset({"isinstance", "is_tensor", "is_storage", "type", "issubclass"})
_OVERRIDE_TESTS = frozenset(
    {"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "typename"}
)
_ATTRIBUTE_TESTS = frozenset({"hasattr", "callable", "getattr"})
_NOTHING = object()
_SINGLE = (bool, torch.dtype, torch.layout, torch.memory_format, enum.Enum)


def _look_compare(node: ast.Compare, found: Found) -> None:
    if is_none_test(node):
        found.append(("none", node.left))
    elif len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        found.extend((("same", node.left), ("other", node.comparators[0])))


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    if first is None:
        return
    # The method `x.type(dtype)` is a cast, which is recorded.
    cast = name == "type" and not (isinstance(function, ast.Name) and len(node.args) == 1)
    if name in _OVERRIDE_TESTS or (name in _TYPE_TESTS and not cast):
        found.append(("type", first))
    elif name in _ATTRIBUTE_TESTS and isinstance(function, ast.Name) and (name != "getattr" or len(node.args) == 3):
        found.append(("attribute", first))


def _look_class(node: ast.Attribute, found: Found) -> None:
    if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
        found.append(("type", node.value))


def _look_match(node: ast.Match, found: Found) -> None:
    found.append(("subject", node.subject))


def _look_assign(node: ast.Assign, found: Found) -> None:
    for target in node.targets:
        if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) != "self":
            found.append(("store", target.value))


def outer(place: Place) -> Place:
    """The place of the expression around a probe's: the whole test, not the value tested."""
    parent = getattr(place.node, "parent", None)
    asks = isinstance(parent, (ast.Compare, ast.Call)) or getattr(parent, "attr", "") == "__class__"
    return place.widened(parent) if asks else place


def none_test(run: Run, probe: Probe, value: Any) -> None:
    """FX201: ``x is None`` of a proxy is False; a normal run sees the argument's value, or its default."""
    if not isinstance(value, Proxy):
        return
    place = outer(run.place_of_probe(probe))
    _none(run, place, value, text_of(probe.node), _outcome(place))


def _none(run: Run, place: Place, value: Proxy, text: str, outcome: str) -> None:
    node = value.node
    known = run.value(value)
    data = {"argument": str(node.target) if node.op == "placeholder" else None}
    if known is None:
        what = "defaults to None" if run.subject.defaults_to_none(node) else "is None in a normal run"
        says = f"`{text}` {what}, but tracing passes a Proxy, so {outcome}"
        run.add("FX201", place, says, node=node.name, data=data)
    elif node.op == "placeholder":
        says = f"`{text}` is a Proxy while tracing, so calls that leave it out follow the same branch"
        run.add("FX201", place, says, node=node.name, severity="info", data=data)
    else:
        asked(run, place, value, none=True)


def _outcome(place: Place) -> str:
    """The result of a comparison with None while tracing."""
    test, parent = place.node, getattr(place.node, "parent", None)
    isnt = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and parent.test is test:
        return f"this branch is {'always' if isnt else 'never'} recorded"
    return f"`{place.text}` is always {isnt}"


def type_test(run: Run, probe: Probe, value: Any) -> None:
    """FX202: isinstance, is_tensor, type and torch functions that check the class see the class Proxy."""
    place = outer(run.place_of_probe(probe))
    name = called_name(place.node).rpartition(".")[2]
    if name in _OVERRIDE_TESTS and isinstance(value, tuple | list):
        value = next((each for each in value if isinstance(each, Proxy)), None)
    if not isinstance(value, Proxy):
        return
    detail = _of_type(name, place, value, run.value(value))
    if detail is None:
        asked(run, place, value)
    else:
        run.add("FX202", place, detail=detail, node=value.node.name)


def _of_type(name: str, place: Place, value: Proxy, known: Any) -> str | None:
    """What the answer is while tracing and in a normal run; None where it is the same, or nobody knows."""
    if name == "isinstance" and len(place.node.args) == 2:
        kind = _evaluate(place.node.args[1], users_frame())
        try:
            traced, real = isinstance(value, kind), _is_instance(known, kind)
        except TypeError:  # also where the kind is unknown
            return None
        return f"Tracing gets {traced}, a normal run {real}" if traced != real else None
    if name == "is_tensor":
        return "Tracing gets False, a normal run True" if isinstance(known, (TensorMeta, Unknown)) else None
    return "Tracing gets True, a normal run False" if name.startswith("has_torch_function") else ""


def matched(run: Run, probe: Probe, value: Any) -> None:
    """FX201 and FX202: patterns of a match statement test the type, or None."""
    place = run.place_of_probe(probe)
    for case in probe.node.parent.cases:
        for pattern, item in _compared(case.pattern, value):
            where = place.widened(pattern)
            if isinstance(pattern, ast.MatchSingleton):
                if pattern.value is None:
                    _none(run, where, item, text_of(probe.node), "this case is never recorded")
                continue
            kind = _evaluate(pattern.cls, users_frame()) if isinstance(pattern, ast.MatchClass) else _kind_of(pattern)
            if not isinstance(kind, type):
                continue
            traced, real = isinstance(item, kind), _is_instance(run.value(item), kind)
            if traced != real:
                detail = f"Tracing gets {traced}, a normal run {real}"
                run.add("FX202", where, detail=detail, node=item.node.name)
            else:
                asked(run, where, item)


def _kind_of(pattern: ast.pattern) -> type:
    return collections.abc.Mapping if isinstance(pattern, ast.MatchMapping) else collections.abc.Sequence


def _compared(pattern: Any, value: Any) -> Iterator[tuple[Any, Proxy]]:
    """The patterns that test a traced value's type or None, with that value."""
    if isinstance(pattern, ast.MatchOr):
        for each in pattern.patterns:
            yield from _compared(each, value)
    elif isinstance(pattern, ast.MatchAs):
        yield from _compared(pattern.pattern, value)
    elif isinstance(value, Proxy):
        if isinstance(pattern, (ast.MatchClass, ast.MatchSequence, ast.MatchMapping, ast.MatchSingleton)):
            yield pattern, value
    elif isinstance(pattern, ast.MatchSequence) and isinstance(value, (list, tuple)):
        if len(value) == len(pattern.patterns):
            for each, item in zip(pattern.patterns, value, strict=True):
                yield from _compared(each, item)
    elif isinstance(pattern, ast.MatchMapping) and isinstance(value, dict):
        for key, each in zip(pattern.keys, pattern.patterns, strict=True):
            if isinstance(key, ast.Constant):
                yield from _compared(each, value.get(key.value))


def _is_instance(known: Any, kind: Any) -> bool:
    if isinstance(known, (TensorMeta, Unknown)):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(issubclass(torch.Tensor, one) for one in kinds if isinstance(one, type))
    return isinstance(known, kind)


def _evaluate(node: ast.expr, frame: FrameType | None) -> Any:
    """The class, or tuple of classes, that an expression of names evaluates to; None for other expressions."""
    if not all(
        isinstance(inner, (ast.Name, ast.Attribute, ast.Tuple, ast.Load, ast.BinOp, ast.BitOr))
        for inner in ast.walk(node)
    ):
        return None
    if frame is None:
        return None
    scope = {**frame.f_globals, **frame.f_locals}
    try:
        return eval(compile(ast.Expression(node), "<test>", "eval", dont_inherit=True), scope)
    except Exception:
        return None


def attribute_test(run: Run, probe: Probe, value: Any) -> None:
    """FX203: a Proxy has every attribute and is callable."""
    if not isinstance(value, Proxy):
        return
    place = outer(run.place_of_probe(probe))
    known = run.value(value)
    call = place.node
    detail = ""
    if called_name(call) == "callable":
        if not isinstance(known, (TensorMeta, Unknown)) and callable(known):
            return
    else:
        attribute = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], ast.Constant) else None
        if isinstance(attribute, str) and _has(known, attribute):
            asked(run, place, value)
            return
        detail = f"A normal run finds no `{attribute}`" if isinstance(attribute, str) else ""
    run.add("FX203", place, detail=detail, node=value.node.name)


def _has(known: Any, attribute: str) -> bool:
    if isinstance(known, (TensorMeta, Unknown)):
        return hasattr(torch.Tensor, attribute)
    return has_attribute(known, attribute)


def _plain(known: Any) -> bool:
    return not isinstance(known, (TensorMeta, Unknown))


def same(run: Run, probe: Probe, value: Any) -> None:
    """The left side of ``is``, kept for `other`, which comes next."""
    run.notes.waiting["same", id(getattr(probe.node, "parent", None))] = value


def other(run: Run, probe: Probe, value: Any) -> None:
    """FX231: ``is`` of a Proxy and an object is False; a normal run sees the argument's value, or its default."""
    left = run.notes.waiting.pop(("same", id(getattr(probe.node, "parent", None))), _NOTHING)
    if left is _NOTHING:
        return
    place = outer(run.place_of_probe(probe))
    proxy, real = (left, value) if isinstance(left, Proxy) else (value, left)
    if not isinstance(proxy, Proxy):
        return
    known = run.value(proxy)
    argument = str(proxy.node.target) if proxy.node.op == "placeholder" else None
    facts: dict[str, Any] = {"node": proxy.node.name, "data": {"argument": argument}}
    if not isinstance(real, Proxy) and _plain(known) and known is real:
        run.add("FX231", place, detail=f"In a normal run it is {show(known)}", **facts)
    elif asked(run, place, proxy) or asked(run, place, real):
        return
    elif isinstance(real, _SINGLE) and (isinstance(known, Unknown) or (argument is not None and _plain(known))):
        run.add("FX231", place, detail=f"The graph is wrong for {show(real)}", severity="info", **facts)


def store(run: Run, probe: Probe, value: Any) -> None:
    """FX211: an attribute of the Proxy object is set, and nothing is recorded."""
    if isinstance(value, Proxy):
        place = run.place_of_probe(probe)
        whole = place.widened(getattr(probe.node, "parent", probe.node))
        run.add("FX211", whole, node=value.node.name)


AT_PROBES = {
    "none": none_test,
    "type": type_test,
    "subject": matched,
    "attribute": attribute_test,
    "same": same,
    "other": other,
    "store": store,
}
LOOKERS: Lookers = {
    ast.Compare: [_look_compare],
    ast.Call: [_look_call],
    ast.Attribute: [_look_class],
    ast.Match: [_look_match],
    ast.Assign: [_look_assign],
}
