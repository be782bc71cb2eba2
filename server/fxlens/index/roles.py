"""The part of a class: whether it is captured, whether scripts construct it on its own, whether it is used beside
models, like losses, matchers and post-processing. Decided by events; by names only without any."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

from fxlens.sources.bound_names import spelled

from . import captures
from . import values as v
from .embedded import EXAMPLES
from .entries import mentions
from .machine import Event
from .runs import Entry, Run
from .symbols import Symbol
from .workspace import Workspace

_ASIDE_NAME = re.compile(
    r"(^|_)(loss(es)?|criterions?|criteria|matcher|post_?proc\w*|(\w+_)?nms|metrics?|accuracy|evaluator)(_|\d|$)"
)
"""Words of the name of a class, in lower case with an underscore between them."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WITH_WEIGHTS = re.compile(
    r"\w*(Linear|Conv|Norm|LSTM|GRU|RNN|Embedding|Transformer|Attention|Encoder|Decoder)\w*|Parameter|Sequential"
)
"""What the constructor of a class with weights of its own calls."""
_DATA_FILE = re.compile(r"(\w+_)?(augment(ation|ations|er|s|ing)?|transforms|preprocess(ing|or)?)\.py$")
_TARGETS = {"target", "targets", "label", "labels", "gt", "gts", "y", "y_true", "ground_truth", "tgt", "targ"}
_DATA = re.compile(r"(^|\.)(Compose|DataLoader|ImageFolder|Lambda|RandomApply|RandomChoice|\w*Dataset)$")


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name or folder."""
    name = os.path.basename(path)
    if name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py":
        return True
    return not {"tests", "test"}.isdisjoint(path.split(os.sep)[-4:-1])


# ---- captured


def captured(event: Event, kind: Symbol) -> bool:
    """Whether this capture receives an instance of the class, or the class itself."""
    return any(kind == each for value in _given(event) for each in _kinds(value))


def captured_functions(event: Event, path: str) -> Iterator[str]:
    """Functions of a file that this capture receives."""
    for value in _given(event):
        if isinstance(value, v.Function) and value.file == path:
            yield value.name


def _given(event: Event) -> Iterator[v.Value]:
    yield from event.args[:1]
    for name in ("model", "root", "mod", "f", "gm", "graph_module", "example_outputs"):
        if name in event.keywords:
            yield event.keywords[name]


def _kinds(value: v.Value) -> Iterator[Symbol]:
    """The classes that a captured value may be an instance of."""
    for each in value.options if isinstance(value, v.Choice) else [value]:
        while isinstance(each, (v.Method, v.Attribute)):
            each = each.receiver if isinstance(each, v.Method) else each.base
        if isinstance(each, v.Object):
            yield each.kind.symbol
        elif isinstance(each, v.Class):
            yield each.symbol
        elif isinstance(each, v.Function) and isinstance(each.receiver, v.Object):
            yield each.receiver.kind.symbol


def decorated(workspace: Workspace, kind: Symbol) -> Iterator[tuple[str, str, int]]:
    """Captures by a decorator of the class or of its forward: ``@torch.compile``."""
    fact = workspace.symbols.classes(kind.file).get(kind.name)
    scope = workspace.symbols.scopes(kind.file).get(f"{kind.name}.forward")
    for each in (fact, scope):
        for name, _ in each.decorators if each is not None else ():
            how = _capture_of(workspace, kind.file, name)
            if how is not None and each is not None:
                yield how, kind.file, each.line


def decorated_functions(workspace: Workspace, path: str) -> Iterator[tuple[str, str, str, int]]:
    """Functions of a file that a decorator captures: name, how, where."""
    for scope in workspace.symbols.scopes(path).values():
        for name, _ in scope.decorators:
            how = _capture_of(workspace, path, name)
            if how is not None and "." not in scope.name:
                yield scope.name, how, path, scope.line


def _capture_of(workspace: Workspace, path: str, dotted: str) -> str | None:
    symbol = workspace.symbols.resolve(path, dotted)
    return captures.kind_of(symbol.name) if symbol is not None and symbol.kind == "external" else None


def capturing_scopes(workspace: Workspace, path: str) -> Iterator[str]:
    """Scopes of a file that call a capturing function."""
    for scope in workspace.facts[path].scopes:
        for name in scope.names:
            if name.rpartition(".")[2] in captures.NAMES and _capture_of(workspace, path, name):
                yield scope.name
                break


def beside_unknown(workspace: Workspace, kind: Symbol) -> Iterator[Entry]:
    """The places where an unknown model (loaded from a file) may be captured, in a file that names the class."""
    for path in dict.fromkeys(path for path, _ in mentions(workspace, kind) if not is_test(path)):
        for scope in capturing_scopes(workspace, path):
            yield Entry(path, scope.partition(".<locals>.")[0])


def captures_unknown(event: Event) -> bool:
    return event.kind == "capture" and any(isinstance(each, v.Hole) for each in event.args[:1])


# ---- on its own


def alone(run: Run, kind: Symbol, sure: bool = True) -> bool:
    """Whether a reading constructs the class outside of any model, and does not pass it to one; with ``sure`` False
    also in branches not taken."""
    made = [each for each in run.events if each.kind == "construct" and (each.sure or not sure)]
    if not any(each.holder is None and each.what.symbol == kind for each in made):
        return False
    return not any(kind in each.inside for each in made)


def is_script(entry: Entry, kind: Symbol) -> bool:
    """Whether an entry point uses a model, rather than trying out a class."""
    return not is_test(entry.file) and not entry.file.endswith(EXAMPLES) and entry.file != kind.file


# ---- beside models


def aside(workspace: Workspace, event: Event, kind: Symbol, parameters: list[str]) -> bool:
    """Whether this event shows a class used beside a model: on a model's result and its target, or on data. A class
    with weights that is called so may be a decoder or a discriminator, unless its name says otherwise."""
    if event.kind != "call":
        return False
    given = [*event.args, *event.keywords.values()]
    if isinstance(event.what, v.Object):
        if event.what.kind.symbol != kind or event.holder == kind:
            return False
        from_models = sum(_from_model(each, kind) for each in given)
        if not from_models:
            return False
        targets = len(given) > from_models and not _TARGETS.isdisjoint([*parameters, *map(_name, given)])
        if len(given) > 1 and (targets or event.no_grad) and not _has_weights(workspace, kind):
            return True
        return _is_aside_name(kind)
    name = getattr(event.what, "name", "")
    return bool(_DATA.search(name)) and any(kind in set(_kinds(each)) for each in _flat(given))


def aside_by_name(kind: Symbol, parameters: list[str]) -> str:
    """The name that says so: that of the class, if its forward takes more than one argument, or that of a file for data
    processing. Empty if there is none."""
    if _is_aside_name(kind) and len(parameters) > 1:
        return "by its name"
    return "by the name of its file" if _DATA_FILE.match(os.path.basename(kind.file)) else ""


def _is_aside_name(kind: Symbol) -> bool:
    return bool(_ASIDE_NAME.search(_WORDS.sub("_", kind.name.rpartition(".")[2]).lower()))


def _has_weights(workspace: Workspace, kind: Symbol) -> bool:
    """Whether its constructor makes layers with weights."""
    start = workspace.symbols.method(kind, "__init__")
    node = workspace.node(start.file, start.name) if start else None
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call)) if node is not None else ()
    return any(_WITH_WEIGHTS.fullmatch((spelled(each.func) or "").rpartition(".")[2]) for each in calls)


def _from_model(value: v.Value, kind: Symbol, depth: int = 8) -> bool:
    if isinstance(value, v.Apply) and isinstance(value.function, v.Object):
        return value.function.kind.symbol != kind
    if isinstance(value, (v.Attribute, v.Item)):
        return depth > 0 and _from_model(value.base, kind, depth - 1)
    return depth > 0 and any(_from_model(part, kind, depth - 1) for part in v.parts(value))


def _flat(values: list[v.Value], depth: int = 3) -> Iterator[v.Value]:
    for each in values:
        yield each
        if depth and not isinstance(each, (v.Object, v.Apply)):
            yield from _flat(list(v.parts(each)), depth - 1)


def _name(value: v.Value) -> str:
    return value.name if isinstance(value, v.Hole) else ""
