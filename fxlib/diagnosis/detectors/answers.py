"""Questions that Python answers about a Proxy by itself: identity, type, attributes, hash, text."""

from __future__ import annotations

import ast
import enum
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.instrument import Probe
from fxlib.diagnosis.engine.place import Place, called_name, surrounding_statement
from fxlib.diagnosis.engine.session import Session
from fxlib.diagnosis.engine.source import span_of
from fxlib.diagnosis.engine.values import Unknown, show
from fxlib.shapes import TensorMeta

__all__ = ["AT_PROBES"]

_MESSAGES = frozenset({"_assert", "assert_", "warn", "warning", "info", "debug", "error", "log", "exception", "print"})


def _outer(place: Place) -> Place:
    """The place of the expression around a probe's: the whole test, not the value tested."""
    parent = getattr(place.node, "parent", None)
    if not isinstance(parent, (ast.Compare, ast.Call)):
        return place
    span = span_of(parent, place.span.file)
    return place.widened(span, parent)


def none_test(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX201: ``x is None`` of a proxy is False; Python would see the argument's value, or its default."""
    if not isinstance(value, Proxy):
        return
    place = _outer(session.place_of_probe(probe))
    node = value.node
    known = session.value(value)
    data = {"argument": str(node.target) if node.op == "placeholder" else None}
    if known is None:
        note = "without this argument it is None, but the trace takes it as given"
        session.add("FX201", place, note, node=node.name, data=data)
    elif node.op == "placeholder":
        note = "the trace answers for a given argument, also for calls that leave it out"
        session.add("FX201", place, note, node=node.name, severity="info", data=data)


def type_test(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX202: isinstance, is_tensor and type see the class Proxy."""
    if not isinstance(value, Proxy):
        return
    place = _outer(session.place_of_probe(probe))
    known = session.value(value)
    name = called_name(place.node).rpartition(".")[2]
    note = "the trace sees a Proxy"
    if name == "isinstance" and len(place.node.args) == 2:
        kind = _evaluate(place.node.args[1], session.frame())
        if kind is None:
            return
        try:
            traced = isinstance(value, kind)
            real = _is_instance(known, kind)
        except TypeError:
            return
        if traced == real:
            return
        note = f"the trace answers {traced}, a normal run {real}"
    elif name == "is_tensor":
        if not isinstance(known, (TensorMeta, Unknown)):
            return
        note = "the trace answers False, a normal run True"
    session.add("FX202", place, note, node=value.node.name)


def _is_instance(known: Any, kind: Any) -> bool:
    if isinstance(known, (TensorMeta, Unknown)):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(issubclass(torch.Tensor, one) for one in kinds if isinstance(one, type))
    return isinstance(known, kind)


def _evaluate(node: ast.expr, frame: Any) -> Any:
    """The class, or tuple of classes, that an expression of names gives; None for other expressions."""
    if not all(
        isinstance(inner, (ast.Name, ast.Attribute, ast.Tuple, ast.Load, ast.BinOp, ast.BitOr))
        for inner in ast.walk(node)
    ):
        return None
    scope = {**frame.f_globals, **frame.f_locals}
    try:
        return eval(compile(ast.Expression(node), "<test>", "eval", dont_inherit=True), scope)
    except Exception:
        return None


def attribute_test(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX203: a Proxy has every attribute and is callable."""
    if not isinstance(value, Proxy):
        return
    place = _outer(session.place_of_probe(probe))
    known = session.value(value)
    call = place.node
    name = called_name(call)
    if name == "callable":
        if not isinstance(known, (TensorMeta, Unknown)) and callable(known):
            return
        note = "the trace answers True"
    else:
        attribute = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], ast.Constant) else None
        if isinstance(attribute, str) and _has(known, attribute):
            return
        named = f", a normal run has no `{attribute}`" if isinstance(attribute, str) else ""
        note = f"the trace finds every attribute{named}"
    session.add("FX203", place, note, node=value.node.name)


def _has(known: Any, attribute: str) -> bool:
    if isinstance(known, (TensorMeta, Unknown)):
        return hasattr(torch.Tensor, attribute)
    return hasattr(known, attribute)


def member(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """The left side of ``in``, kept for `container`, which comes next."""
    session.state["member"] = (probe, value) if isinstance(value, Proxy) else None


def container(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX204: sets and dictionaries look up a Proxy by its identity."""
    left = session.state.pop("member", None)
    if left is None or not isinstance(value, (set, frozenset, dict, type({}.keys()))):
        return
    if getattr(left[0].node, "parent", None) is not getattr(probe.node, "parent", None):
        return
    if any(item is left[1] for item in value):
        return
    place = _outer(session.place_of_probe(probe))
    known = session.value(left[1])
    note = "the lookup goes by the identity of the Proxy and never finds it"
    severity = None
    if not isinstance(known, (TensorMeta, Unknown)):
        try:
            real = known in value
        except TypeError:
            real = False
        note += f"; on the example inputs a normal run answers {real}"
    session.add("FX204", place, note, node=left[1].node.name, severity=severity)


def keyed(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """What ``.get(key)`` and the like are called on, and ``[key] =`` writes into; kept for `key`, which comes next."""
    above = getattr(probe.node, "parent", None)
    call = above if isinstance(above, ast.Subscript) else getattr(above, "parent", None)
    session.state.setdefault("keyed", {})[id(call)] = value if isinstance(value, (set, dict)) else None


def key(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX204 and FX218: methods of sets and dictionaries that look a number up, or keep it. Tensors are keys by their
    identity, with and without a trace."""
    call = getattr(probe.node, "parent", None)
    holder = session.state.get("keyed", {}).pop(id(call), None)
    if holder is None or not isinstance(value, Proxy) or any(item is value for item in holder):
        return
    known = session.value(value)
    if isinstance(known, TensorMeta):
        return
    severity = "info" if isinstance(known, Unknown) and value.node.target != "item" else None
    place = session.place_of_probe(probe)
    name = called_name(call).rpartition(".")[2]
    if name in ("", "setdefault", "add"):
        session.add("FX218", place, "the key is the Proxy itself", node=value.node.name, severity=severity)
    elif name in ("get", "discard") or len(call.args) > 1:
        note = "the lookup goes by the identity of the Proxy and never finds it"
        if not isinstance(known, Unknown):
            note += f"; on the example inputs a normal run looks for {show(known)}"
        session.add("FX204", _outer(place), note, node=value.node.name, severity=severity)


_SINGLE = (bool, torch.dtype, torch.layout, torch.memory_format, enum.Enum)


def _plain(known: Any) -> bool:
    return not isinstance(known, (TensorMeta, Unknown))


def same(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """The left side of ``is``, kept for `other`, which comes next."""
    session.state["same"] = (probe, value)


def other(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX231: ``is`` of a Proxy and an object is False; Python would see the argument's value, or its default."""
    left = session.state.pop("same", None)
    if left is None or getattr(left[0].node, "parent", None) is not getattr(probe.node, "parent", None):
        return
    if isinstance(left[1], Proxy) == isinstance(value, Proxy):
        return
    proxy, real = (left[1], value) if isinstance(left[1], Proxy) else (value, left[1])
    known = session.value(proxy)
    argument = str(proxy.node.target) if proxy.node.op == "placeholder" else None
    place = _outer(session.place_of_probe(probe))
    if _plain(known) and known is real:
        note = f"the trace sees a Proxy, a normal run {show(known)}"
        session.add("FX231", place, note, node=proxy.node.name, data={"argument": argument})
    elif isinstance(real, _SINGLE) and (isinstance(known, Unknown) or (argument is not None and _plain(known))):
        note = f"the trace answers for anything but {show(real)}, also where it is that"
        session.add("FX231", place, note, node=proxy.node.name, severity="info", data={"argument": argument})


def hashed(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX218: hash, keys and members of sets."""
    if isinstance(value, Proxy):
        place = session.place_of_probe(probe)
        if called_name(getattr(probe.node, "parent", None)) == "hash":
            place = _outer(place)
        session.add("FX218", place, "the key is the Proxy itself", node=value.node.name)


def text(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX205: text made from a Proxy. In a message it does no harm, so that is information only."""
    if not isinstance(value, Proxy):
        return
    place = session.place_of_probe(probe)
    known = session.value(value)
    shown = "" if isinstance(known, (TensorMeta, Unknown)) else f", where a normal run has {show(known)}"
    note = f"the text holds {value!r}{shown}"
    severity = "info" if _in_message(probe.node) else None
    session.add("FX205", _text_place(place), note, node=value.node.name, severity=severity)


def _text_place(place: Place) -> Place:
    """The whole f-string or call: what is frozen."""
    node = place.node
    while node is not None and isinstance(getattr(node, "parent", None), (ast.FormattedValue, ast.JoinedStr)):
        node = node.parent
    if isinstance(getattr(node, "parent", None), ast.Call) and not isinstance(node, ast.JoinedStr):
        node = node.parent
    elif isinstance(getattr(node, "parent", None), (ast.BinOp, ast.Tuple)) and not isinstance(node, ast.JoinedStr):
        node = node.parent
        if isinstance(getattr(node, "parent", None), ast.BinOp):
            node = node.parent
    span = span_of(node, place.span.file)
    return place.widened(span, node)


def _in_message(node: Any) -> bool:
    statement = surrounding_statement(node)
    if isinstance(statement, (ast.Assert, ast.Raise)):
        return True
    above = getattr(node, "parent", None)
    while above is not None and above is not statement:
        if isinstance(above, ast.Call) and called_name(above).rpartition(".")[2] in _MESSAGES:
            return True
        above = getattr(above, "parent", None)
    return False


def store(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX211: an attribute of the Proxy object is set, and nothing is recorded."""
    if isinstance(value, Proxy):
        place = session.place_of_probe(probe)
        target = getattr(probe.node, "parent", probe.node)
        span = span_of(target, place.span.file)
        whole = place.widened(span, target)
        session.add("FX211", whole, "the attribute of the Proxy changes, the graph does not", node=value.node.name)


AT_PROBES = {
    "none": none_test,
    "type": type_test,
    "attribute": attribute_test,
    "member": member,
    "container": container,
    "keyed": keyed,
    "key": key,
    "same": same,
    "other": other,
    "hash": hashed,
    "text": text,
    "store": store,
}
