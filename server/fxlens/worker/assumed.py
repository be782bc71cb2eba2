"""Assumptions about a class whose construction or inputs are not given: `assume`, with hints from incomplete
constructions."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from fxlens.sources.known import HOLE
from fxlens.sources.targets import Target

from .assume import Assumer
from .assume.names import habit

_assumers: WeakKeyDictionary[ModuleType, Assumer] = WeakKeyDictionary()


@dataclass(frozen=True)
class Assumed:
    """A module, its construction as text, and inputs with which its forward runs; or else the reason, with the
    construction that got furthest as ``text``."""

    module: Any = None
    text: str = ""
    meta: bool = True
    inputs: str | None = None
    reason: str = ""
    error: BaseException | None = None


def construct(namespace: ModuleType, target: Target, kind: type) -> Assumed:
    """Searches arguments with which the class can be constructed, and inputs for it."""
    assumer = _assumer(namespace)
    assumer.hints.clear()
    for source in (*target.partial, *(each for each in target.construct if each.source == "workspace")):
        for name, text in _arguments(kind, source.text).items():
            # From a construction that raises, only configurations are used: one of its values may be wrong.
            if source in target.partial or _is_configuration(text):
                assumer.hints.setdefault(name, []).append(text)
    found = assumer.assume(kind)
    if found.construct is None:
        return Assumed(text=found.tried, reason=found.reason or "nothing fits", error=found.error)
    return Assumed(found.module, found.construct, found.on_meta, found.inputs if found.ran else None)


def inputs(namespace: ModuleType, module: Any, made: str, meta: bool) -> str | None:
    """Searches inputs with which the module's forward runs; ``made`` is the text that constructed it."""
    numbers = {
        name: int(text) for name, text in _arguments(type(module), made).items() if text.isdigit() and len(text) < 10
    }
    return _assumer(namespace).inputs(module, meta, numbers)


def forget(namespace: ModuleType) -> None:
    """Drops cached readings of the module's code, which may be edited."""
    _assumers.pop(namespace, None)


def is_abstract(namespace: ModuleType, kind: type) -> bool:
    """Whether the class leaves its forward to its subclasses."""
    return _assumer(namespace).is_abstract(kind)


def _assumer(namespace: ModuleType) -> Assumer:
    if namespace not in _assumers:
        _assumers[namespace] = Assumer(namespace)
    return _assumers[namespace]


def _is_configuration(text: str) -> bool:
    node = ast.parse(text, mode="eval").body
    called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Dict) or called in ("AttrDict", "Namespace")


_NUMBERS = frozenset({"abs", "bool", "float", "int", "max", "min", "round"})


def _is_computed(node: ast.expr) -> bool:
    """Whether a hole is the argument of a function, ``torch.unique(__hole__("labels")).size(0)``, so that no number can
    replace it."""
    for each in ast.walk(node):
        name = ast.unparse(each.func).rpartition(".")[2] if isinstance(each, ast.Call) else HOLE
        makes = name == HOLE or name in _NUMBERS or name[:1].isupper()
        if not makes and HOLE in ast.unparse(each):
            return True
    return False


class _Filling(ast.NodeTransformer):
    """Replaces holes for numbers by usual values: ``{"hm": __hole__("num_classes"), "wh": 2}``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == HOLE and isinstance(node.args[0], ast.Constant):
            usual = habit(str(node.args[0].value))
            if usual is not None and usual.kind == "int":
                return ast.Constant(int(usual.values[0]))
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Omit an unresolved name of a configuration, since the code may not read it."""
        known = [pair for pair in zip(node.keys, node.values, strict=True) if not _is_computed(pair[1])]
        node = ast.Dict([key for key, _ in known], [value for _, value in known])
        self.generic_visit(node)
        pairs = [pair for pair in zip(node.keys, node.values, strict=True) if HOLE not in ast.unparse(pair[1])]
        return ast.Dict([key for key, _ in pairs], [value for _, value in pairs])


def _filled(node: ast.expr) -> ast.expr:
    """The argument, unchanged if it is only a named hole, from which the search gets more."""
    whole = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == HOLE
    of_table = any(isinstance(each, ast.Dict) for each in ast.walk(node))
    return node if whole or (not of_table and _is_computed(node)) else _Filling().visit(node)


def _arguments(kind: type, text: str) -> dict[str, str]:
    """The arguments of a construction that are known, by the names of the parameters."""
    try:
        call = ast.parse(text, mode="eval").body
        names = [name for name in inspect.signature(kind).parameters]
    except (SyntaxError, ValueError, TypeError):
        return {}
    if not isinstance(call, ast.Call):
        return {}
    given = dict(zip(names, call.args, strict=False))
    given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    texts = {name: ast.unparse(_filled(node)) for name, node in given.items() if not isinstance(node, ast.Starred)}
    return {name: text for name, text in texts.items() if HOLE not in text}
