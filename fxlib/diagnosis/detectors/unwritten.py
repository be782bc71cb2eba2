"""FX239: values in the graph that its generated code cannot write."""

from __future__ import annotations

import ast
import builtins
import cmath
import enum
import math
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from fxlib.codegen.statements import is_negative
from fxlib.diagnosis.engine.search import Search
from fxlib.ir.format import SYMBOLIC
from fxlib.ir.names import _custom_builtins
from fxlib.ir.node import Node
from fxlib.ir.objects import has_attribute, is_a

__all__ = ["ON_GRAPH"]

_KNOWN = {*vars(builtins), *_custom_builtins}
"""The names that generated code always has."""

_PLAIN = frozenset({Node, type(None), bool, int, float, str, bytes})
_NUMBERS = (int, float, complex, str, bytes)


class _Unwritten(NamedTuple):
    value: Any
    text: str
    fails: str
    """What comes of the text: an exception, or another value."""


def unwritten_values(search: Search) -> None:
    """FX239: torch.fx writes such a value as its text, which is no code, names what the code does not know, or is
    another value."""
    run = search.best
    parameters = {str(node.target).lstrip("*") for node in run.nodes if node.op == "placeholder"}
    for node in run.nodes:
        parts = () if node.op == "placeholder" else (*node.args, *node.kwargs.values())  # a default is in the head
        hidden = next((each for part in parts for each in _names_in(part) & parameters), "")
        if hidden:
            detail = f"The code needs the name `{hidden}`, which is that of an argument there: rename the argument"
            run.add("FX239", run.place_of_node(node), detail=detail, node=node.name)
            continue
        found = next((each for part in (*node.args, *node.kwargs.values()) for each in _in(part)), None)
        if found is not None:
            detail, data = _said(found)
            run.add("FX239", run.place_of_node(node), detail=detail, node=node.name, data=data)
        elif node.target is operator.pow and is_negative(node.args[0]):
            text = _short(f"{node.args[0]} ** {node.args[1]}")
            detail = f"There `{text}` is `-({text[1:]})`: use torch.pow"
            run.add("FX239", run.place_of_node(node), detail=detail, node=node.name)


def _names_in(value: Any) -> set[str]:
    """The names that the text of a value consists of, where a parameter may have the same."""
    if type(value) is slice:
        return {"slice"}.union(*map(_names_in, (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)):
        return set().union(*map(_names_in, value))
    if type(value) is torch.device:
        return {"device"}
    return {repr(abs(value))} if type(value) is float and not math.isfinite(value) else set()


def _said(found: _Unwritten) -> tuple[str, dict[str, Any]]:
    value, kind = found.value, type(found.value)
    plain = next((each for each in _NUMBERS if isinstance(value, each)), None)
    if isinstance(value, enum.Enum) and not isinstance(value, enum.Flag):
        advice, plain = "use its value or its name", None
    elif kind is complex:
        advice, plain = "keep it in a buffer", None
    elif plain is not None:
        advice = f"make it a plain {plain.__name__}, `{plain.__name__}(…)`"
    else:
        advice = f"use something plain instead of `{kind.__name__}`"
    said = f"As `{_short(found.text)}` it {found.fails}: {advice}"
    return said, {} if plain is None else {"plain": plain.__name__}


def _short(text: str) -> str:
    line = " ".join(each for each in text.split() if each.isprintable())
    return line if len(line) <= 40 else f"{line[:39]}…"


def _in(value: Any, by_text: bool = False) -> Iterator[_Unwritten]:
    """What of a value the code cannot write. ``by_text``: the value is in a dictionary, or in a named tuple that is a
    default, of which torch.fx writes Python's own text."""
    kind = type(value)
    if kind in _PLAIN or is_a(value, (torch.Tensor, *SYMBOLIC)) or has_attribute(value, "_custom_fx_repr_fn"):
        return
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _in(part, by_text or hasattr(value, "_fields"))
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from _in(part, True)
    elif kind is slice:
        for part in (value.start, value.stop, value.step):
            yield from _in(part, by_text)
    elif isinstance(value, enum.Enum):
        text = repr(value) if by_text else f"{kind.__name__}.{value.name}"
        if fails := _fails(text, kind.__name__):
            yield _Unwritten(value, text, fails)
    elif isinstance(value, _NUMBERS) and not (type(value) is complex and cmath.isfinite(value)):
        text = repr(value)
        if fails := _fails(text) or _differs(text, value):
            yield _Unwritten(value, text, fails)


def _fails(text: str, *names: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return "raises SyntaxError"
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    return "" if used <= {*_KNOWN, *names} else "raises NameError"


def _differs(text: str, value: Any) -> str:
    try:
        same = ast.literal_eval(text) == value
    except ValueError:  # no literal, such as inf
        same = True
    return "" if same else "is another value"


ON_GRAPH = (unwritten_values,)
