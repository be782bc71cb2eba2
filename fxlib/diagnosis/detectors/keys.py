"""Proxies as keys or text: they are looked up by identity, and formatted as their name."""

from __future__ import annotations

import ast
import re
from typing import Any

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.answers import outer
from fxlib.diagnosis.engine.forms import called_name, surrounding_statement
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.values import Unknown, show
from fxlib.shapes import TensorMeta

__all__ = ["AT_PROBES", "LOOKERS"]

_NUMBER_FORMAT = re.compile(r"%[-#0 +]*\d*(\.\d+)?[diouxXeEfFgGc]")
_TEXTS = frozenset({"str", "repr", "ascii", "print", "format"})
_KEYED = frozenset({"get", "pop", "setdefault", "add", "discard"})
_MESSAGES = frozenset({"_assert", "assert_", "warn", "warning", "info", "debug", "error", "log", "exception", "print"})


def _look_compare(node: ast.Compare, found: Found) -> None:
    left, right = node.left, node.comparators[0]
    if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)) or isinstance(left, ast.Constant):
        return
    if not isinstance(right, (ast.Tuple, ast.List, ast.Constant)):
        found.extend((("member", left), ("container", right)))


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    if _makes_text(function, name):
        found.extend(("text", argument) for argument in node.args if not isinstance(argument, ast.Starred))
    elif name == "hash" and first is not None:
        found.append(("hash", first))
    elif name in _KEYED and isinstance(function, ast.Attribute) and first is not None:
        found.extend((("keyed", function.value), ("key", first)))


def _makes_text(function: ast.expr, name: str | None) -> bool:
    if isinstance(function, ast.Name):
        return name in _TEXTS
    return name == "format" and isinstance(getattr(function, "value", None), ast.Constant)


def _look_dict(node: ast.Dict, found: Found) -> None:
    found.extend(("hash", key) for key in node.keys if key is not None and not isinstance(key, ast.Constant))


def _look_set(node: ast.Set, found: Found) -> None:
    found.extend(("hash", item) for item in node.elts if not isinstance(item, (ast.Starred, ast.Constant)))


def _look_formatted(node: ast.FormattedValue, found: Found) -> None:
    if node.format_spec is None:
        found.append(("text", node.value))


def _look_operator(node: ast.BinOp, found: Found) -> None:
    template = node.left.value if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) else None
    # A template with number formats raises, which reports it.
    if isinstance(template, str) and not _NUMBER_FORMAT.search(template):
        parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        found.extend(("text", part) for part in parts if not isinstance(part, ast.Starred))


def _look_assign(node: ast.Assign, found: Found) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Tuple, ast.Constant)):
            found.extend((("keyed", target.value), ("key", target.slice)))


def member(run: Run, probe: Probe, value: Any) -> None:
    """The left side of ``in``, kept for `container`, which comes next."""
    run.notes.waiting["member", id(getattr(probe.node, "parent", None))] = value


def container(run: Run, probe: Probe, value: Any) -> None:
    """FX204: ``in`` of sets and dictionaries compares a Proxy by identity."""
    left = run.notes.waiting.pop(("member", id(getattr(probe.node, "parent", None))), None)
    if not isinstance(left, Proxy) or not isinstance(value, (set, frozenset, dict, type({}.keys()))):
        return
    if any(item is left for item in value):
        return
    place = outer(run.place_of_probe(probe))
    known = run.value(left)
    detail = ""
    if not isinstance(known, (TensorMeta, Unknown)):
        try:
            real = known in value
        except TypeError:
            real = False
        detail = f"On the example inputs a normal run gets {real}"
    run.add("FX204", place, detail=detail, node=left.node.name)


def keyed(run: Run, probe: Probe, value: Any) -> None:
    """The object of ``.get(key)`` and the like, or of ``[key] =``; kept for `key`, which comes next."""
    above = getattr(probe.node, "parent", None)
    call = above if isinstance(above, ast.Subscript) else getattr(above, "parent", None)
    run.notes.waiting["keyed", id(call)] = value if isinstance(value, (set, dict)) else None


def key(run: Run, probe: Probe, value: Any) -> None:
    """FX204 and FX218: methods of sets and dictionaries that look up or store a number. Tensors are compared by
    identity, with and without a trace."""
    call = probe.node.parent
    holder = run.notes.waiting.pop(("keyed", id(call)), None)
    if holder is None or not isinstance(value, Proxy) or any(item is value for item in holder):
        return
    known = run.value(value)
    if isinstance(known, TensorMeta):
        return
    severity = "info" if isinstance(known, Unknown) and value.node.target != "item" else None
    place = run.place_of_probe(probe)
    name = called_name(call).rpartition(".")[2]
    if name in ("", "setdefault", "add"):
        run.add("FX218", place, node=value.node.name, severity=severity)
    elif name in ("get", "discard") or len(call.args) > 1:
        detail = "" if isinstance(known, Unknown) else f"On the example inputs a normal run looks for {show(known)}"
        run.add("FX204", outer(place), detail=detail, node=value.node.name, severity=severity)


def hashed(run: Run, probe: Probe, value: Any) -> None:
    """FX218: hash, keys and members of sets."""
    if isinstance(value, Proxy):
        place = run.place_of_probe(probe)
        if called_name(getattr(probe.node, "parent", None)) == "hash":
            place = outer(place)
        run.add("FX218", place, node=value.node.name)


def text(run: Run, probe: Probe, value: Any) -> None:
    """FX205: text made from a Proxy. In a message it is harmless, so that is information only."""
    if not isinstance(value, Proxy):
        return
    place = run.place_of_probe(probe)
    known = run.value(value)
    detail = "" if isinstance(known, (TensorMeta, Unknown)) else f"A normal run writes {show(known)}"
    severity = "info" if _in_message(probe.node) else None
    run.add("FX205", _text_place(place), detail=detail, node=value.node.name, severity=severity)


def _text_place(place: Place) -> Place:
    """The whole f-string or call, which becomes a constant."""
    node = place.node
    while node is not None and isinstance(getattr(node, "parent", None), (ast.FormattedValue, ast.JoinedStr)):
        node = node.parent
    if isinstance(getattr(node, "parent", None), ast.Call) and not isinstance(node, ast.JoinedStr):
        node = node.parent
    elif isinstance(getattr(node, "parent", None), (ast.BinOp, ast.Tuple)) and not isinstance(node, ast.JoinedStr):
        node = node.parent
        if isinstance(getattr(node, "parent", None), ast.BinOp):
            node = node.parent
    return place.widened(node)


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


AT_PROBES = {
    "member": member,
    "container": container,
    "keyed": keyed,
    "key": key,
    "hash": hashed,
    "text": text,
}
LOOKERS: Lookers = {
    ast.Compare: [_look_compare],
    ast.Call: [_look_call],
    ast.Dict: [_look_dict],
    ast.Set: [_look_set],
    ast.FormattedValue: [_look_formatted],
    ast.BinOp: [_look_operator],
    ast.Assign: [_look_assign],
}
