"""Readings of the workspace's entry points: scripts, tests, functions without callers. They record the events of
models, with the actual values."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, field

from fxlens.sources.uses import is_main_guard

from . import argparsers, configs, configured, matching
from .branches import Branches
from .calls import Calls
from .embedded import EXAMPLES
from .expressions import Expressions
from .machine import MOST_STEPS, Event, Exhausted, Frame, Names, Workspace
from .objects import Objects
from .operators import Operators
from .statements import Statements
from .symbols import Symbol
from .values import OPEN, Class, Function, Hole, Object, Sequence, Value


class Interpreter(Statements, Branches, Expressions, Operators, Calls, Objects):  # type: ignore[misc]
    """All parts together."""

    def invoke(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        node = function.node
        if not isinstance(node, ast.Lambda) and node.decorator_list:
            given = given_by_decorators(self, function)
            keywords = {**{name: each for name, each in given.items() if name not in keywords}, **keywords}
            plain = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            first = [*([function.receiver] if function.receiver is not None else []), *args]
            for name in plain[: len(first)]:
                keywords.pop(name, None)
        return super().invoke(function, args, keywords)


CONFIGURED = "configured "


@dataclass(frozen=True)
class Entry:
    """Where a reading starts: a file (``scope`` is then empty), a function in it, or a class that a configuration names
    (``scope`` is then `CONFIGURED` with the class's file and name)."""

    file: str
    scope: str


@dataclass
class Run:
    """What one reading found, and the files that it depended on (``*``: on what is registered anywhere)."""

    entry: Entry
    events: list[Event] = field(default_factory=list)
    settings: list[tuple[Value, tuple[str, int]]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    exhausted: bool = False


def read(workspace: Workspace, entry: Entry, steps: int = MOST_STEPS) -> Run:
    """Reads from one entry point. Never raises because of the code."""
    if entry.file.endswith((".md", ".ipynb", EXAMPLES)):
        steps *= 6  # like many scripts in one
    machine = Interpreter(workspace, steps)
    machine.files.add(entry.file)
    run = Run(entry, machine.events, machine.settings, machine.files)
    try:
        if entry.scope.startswith(CONFIGURED):
            _configured(machine, entry)
        elif entry.scope:
            _function(machine, entry)
        else:
            _module(machine, entry.file)
    except (Exhausted, RecursionError):
        run.exhausted = True
    return run


def module_names(workspace: Workspace, path: str) -> tuple[Names, set[str]]:
    """The names of a module after import, without its part as a script, and the files it depended on."""
    machine = Interpreter(workspace, MOST_STEPS // 4)
    tree = workspace.tree(path)
    names = machine.modules[path] = Names()
    machine.files.add(path)
    if tree is not None:
        frame = Frame(path, "", names)
        machine.frames.append(frame)
        with suppress(Exhausted, RecursionError):
            machine.block([node for node in tree.body if not is_main_guard(node)])
    return names, machine.files


def _module(machine: Interpreter, path: str) -> None:
    tree = machine.workspace.tree(path)
    if tree is None:
        return
    names = machine.modules[path] = Names()
    machine.frames.append(Frame(path, "", names))
    machine.block(tree.body)


def _function(machine: Interpreter, entry: Entry) -> None:
    """Calls a function with arguments from decorators, defaults or pytest, or with holes."""
    outer = entry.scope.partition(".<locals>.")[0]
    machine.frames.append(Frame(entry.file, "", machine.names_of(entry.file)))
    owner, _, name = outer.rpartition(".")
    if not owner:
        function = machine.module_name(entry.file, outer)
        if isinstance(function, Function):
            given = matching.for_function(machine, function)
            machine.sure = machine.sure and not given  # chosen because they fit
            machine.invoke(function, [], given)
        return
    kind = Symbol("class", entry.file, owner)
    node = machine.workspace.node(entry.file, outer if name != "__init__" else owner)
    if node is None:
        return
    if name == "__init__" and machine.symbols.is_module(kind):
        machine.sure = False  # chosen because it fits, or as the default
        chosen = matching.given(machine, kind, kind.file)
        if chosen is None:
            machine.construct(Class(kind), [], {OPEN: Hole("arguments")}, node)
        else:
            machine.frame.file, machine.frame.line = chosen[1]
            machine.construct(Class(kind), [], chosen[0], ast.Constant(None))
        return
    made = machine.construct(Class(kind), [], {OPEN: Hole("arguments")}, node)
    for before in ("setUp", "setup_method", "setUpClass", "setup_class"):
        method = machine.symbols.method(kind, before)
        if method is not None and name.startswith("test"):
            machine.call_method(made, method, [], {})
    bound = machine.attribute(made, name) if isinstance(made, Object) else machine.attribute(Class(kind), name)
    if isinstance(bound, Function):
        machine.invoke(bound, [], {})


def _configured(machine: Interpreter, entry: Entry) -> None:
    """Constructs a class from a configuration file."""
    home, _, name = entry.scope.removeprefix(CONFIGURED).partition("::")
    kind = Symbol("class", home, name)
    workspace = machine.workspace
    machine.files |= {home, "*"}
    keys = workspace.keys_of(kind)
    if entry.file.endswith(".py"):
        names = machine.names_of(entry.file)
        data: Value = machine.new_dict({key: each for key, each in names.items() if isinstance(each, Value)})
    else:
        found = configs.in_place(machine, entry.file)
        is_hydras = isinstance(found, dict) and "_target_" in found
        data = configs.described(machine, found, "config" if is_hydras else "dict", entry.file)
    line = configured.line_of(workspace.text(entry.file) or "", keys)
    machine.frames.append(Frame(entry.file, "", Names(), line=line))
    for made, arguments in configured.constructions(machine, kind, keys, data):
        machine.construct(made, [], arguments, ast.Constant(None))


def given_by_decorators(machine: Interpreter, function: Function) -> dict[str, Value]:
    """Arguments for the parameters of a function from decorators: hydra's configuration, click's options, pytest's
    values."""
    node = function.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    names = {_called(each) for each in node.decorator_list}
    found: dict[str, Value] = {}
    machine.frames.append(Frame(function.file, "", machine.names_of(function.file)))
    try:
        if names & {"main", "hydra_main", "hydra_runner", "hydra_wrapper"} and node.args.args:
            config = configs.hydra_argument(machine, node)
            if config is not None:
                first = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
                found.update({first[0]: config} if first else {})
        if names & {"option", "argument"}:
            found.update(argparsers.from_decorators(machine, node))
        if names & {"automain", "main", "command", "capture"}:
            found.update(_of_sacred(machine, function))
        if "parametrize" in names:
            found.update(_parametrized(machine, node))
    finally:
        machine.frames.pop()
    return found


def _called(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _parametrized(machine: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Value]:
    """The first values of ``pytest.mark.parametrize``."""
    found: dict[str, Value] = {}
    for each in node.decorator_list:
        if _called(each) != "parametrize" or not isinstance(each, ast.Call) or len(each.args) < 2:
            continue
        spelled, values = machine.value(each.args[0]), machine.items_of(machine.value(each.args[1]))
        texts = getattr(spelled, "value", None)
        if isinstance(spelled, Sequence):
            names = [str(getattr(name, "value", "")) for name in spelled.items]
        else:
            names = [name.strip() for name in str(texts).split(",")]
        if not values:
            continue
        first = values[0]
        many = first.items if isinstance(first, Sequence) and len(names) > 1 else [first]
        found.update(zip(names, many, strict=False))
    return found


def _of_sacred(machine: Interpreter, function: Function) -> dict[str, Value]:
    """The local names of the function that ``@ex.config`` decorates, in the same file."""
    found: dict[str, Value] = {}
    for scope in machine.symbols.scopes(function.file).values():
        if any(name.endswith(".config") for name, _ in scope.decorators):
            node = machine.workspace.node(function.file, scope.name)
            if isinstance(node, ast.FunctionDef):
                frame = Frame(function.file, scope.name, Names())
                machine.frames.append(frame)
                machine.block(node.body)
                machine.frames.pop()
                found.update({name: each for name, each in frame.names.items() if isinstance(each, Value)})
    return found
