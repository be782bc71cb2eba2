"""Command-line parsers: the statements that build one are read, and give the namespace of its defaults."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .machine import Machine
from .values import (
    NONE,
    OPEN,
    Class,
    Const,
    External,
    Function,
    Hole,
    Mapping,
    Object,
    Sequence,
    Tool,
    Unknown,
    Value,
    copied,
    lift,
    literal,
)  # fmt: skip


@dataclass
class Argument:
    """One argument of a parser: its value where nobody gives it, and what makes a value of a text."""

    value: Value
    kind: Value | None = None
    nargs: Any = None
    flags: tuple[str, ...] = ()
    constant: Value | None = None


@dataclass
class Parser:
    """What ``argparse.ArgumentParser`` would know."""

    origin: str = ""
    arguments: dict[str, Argument] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)
    inner: list[tuple[str, Parser]] = field(default_factory=list)
    choice: str | None = None  # the attribute that the name of the subcommand is kept in
    classes: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)

    def copied(self, memo: dict[int, Value]) -> Parser:
        arguments = {
            name: Argument(copied(each.value, memo), each.kind, each.nargs, each.flags, each.constant)
            for name, each in self.arguments.items()
        }
        inner = [(name, parser.copied(memo)) for name, parser in self.inner]
        return Parser(
            self.origin, arguments, dict(self.defaults), inner, self.choice, list(self.classes), dict(self.named)
        )

    def call(self, machine: Machine, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        handler = _METHODS.get(name)
        return Hole(name) if handler is None else handler(machine, self, args, keywords)

    # ---- what the methods do

    def add(self, machine: Machine, args: list[Value], keywords: dict[str, Value]) -> None:
        flags = tuple(each.value for each in args if isinstance(each, Const) and isinstance(each.value, str))
        name = _text(keywords.get("dest")) or _destination(flags)
        if name is None:
            return
        action = _text(keywords.get("action")) or ""
        if action in ("version", "help"):
            return
        positional = not flags[0].startswith("-") if flags else False
        default = keywords.get("default")
        constant = keywords.get("const")
        nargs = keywords.get("nargs")
        length = nargs.value if isinstance(nargs, Const) else None
        if default is None:
            if action in ("store_true", "store_false"):
                default = Const(action == "store_false")
            elif positional and length in ("*", "?"):
                default = NONE if length == "?" else machine.new_list([])
            elif positional or _is_true(keywords.get("required")):
                default = _first_choice(keywords.get("choices")) or Hole(name)
            else:
                default = NONE
        if action in ("store_true", "store_false"):
            constant = Const(action == "store_true")
        kind = keywords.get("type")
        if isinstance(default, Const) and isinstance(default.value, str) and kind is not None:
            default = _converted(machine, kind, default)
        if isinstance(default, Hole):
            default = Hole(name)
        self.arguments[name] = Argument(default, kind, length, flags, constant)

    def namespace(self, machine: Machine, tokens: list[str]) -> Mapping:
        """What ``parse_args`` gives for these texts of a command line."""
        found: dict[Any, Value] = {name: each.value for name, each in self.arguments.items()}
        found.update(self.defaults)
        choices: list[Value] = []
        for at, (name, parser) in enumerate(self.inner):
            space = parser.namespace(machine, [])
            for key, value in space.items.items():
                if key == "func" or not isinstance(found.get(key, NONE), Const):
                    choices.append(value)
                found.setdefault(key, value)
            if at == 0 and self.choice:
                found[self.choice] = Const(name)
        for kind, value in self.named.items():
            found[kind] = machine.call(value, [], {}, ast.Constant(None)) if isinstance(value, Class) else value
        self._override(machine, found, tokens)
        made = machine.new_dict(found, "namespace", origin=self.origin)
        machine.met(made)
        return made

    def _override(self, machine: Machine, found: dict[Any, Value], tokens: list[str]) -> None:
        by_flag = {flag: (name, each) for name, each in self.arguments.items() for flag in each.flags}
        at = 0
        while at < len(tokens):
            flag, _, value = tokens[at].partition("=")
            at += 1
            if flag not in by_flag or not flag.startswith("-"):
                continue
            name, argument = by_flag[flag]
            if argument.constant is not None and not value and argument.nargs is None:
                found[name] = argument.constant
                continue
            texts = [value] if value else []
            while not value and at < len(tokens) and (not tokens[at].startswith("--")):
                texts.append(tokens[at])
                at += 1
                if argument.nargs in (None, "?"):
                    break
            given = [_converted(machine, argument.kind, Const(text)) for text in texts]
            many = argument.nargs not in (None, "?")
            found[name] = machine.new_list(list(given)) if many else given[0] if given else found[name]


def _make(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    parser = Parser(machine.frame.file)
    parents = machine.items_of(keywords["parents"]) if "parents" in keywords else None
    for parent in parents or ():
        if isinstance(parent, Tool) and isinstance(parent.state, Parser):
            parser.arguments.update(parent.state.arguments)
            parser.defaults.update(parent.state.defaults)
    kinds = args[0] if args else keywords.get("dataclass_types")
    every = kinds.items if isinstance(kinds, Sequence) else [kinds] if kinds else []
    parser.classes = [each for each in every if isinstance(each, Class)]
    return machine.new_tool("parser", parser)


# ---- methods

Method = Callable[[Machine, Parser, list[Value], dict[str, Value]], Value]


def _add_argument(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    if machine.dead_since is None:
        parser.add(machine, args, keywords)
    return NONE


def _same(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    return machine.new_tool("parser", parser)  # a group adds to its parser


def _set_defaults(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    for name, value in keywords.items():
        if name in parser.arguments:
            parser.arguments[name].value = value
        elif name != OPEN:
            parser.defaults[name] = value
    return NONE


def _parse(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    given = args[0] if args else keywords.get("args", NONE)
    try:
        texts = literal(given)
    except Unknown:
        texts = None
    tokens = [each for each in texts if isinstance(each, str)] if isinstance(texts, (list, tuple)) else []
    return parser.namespace(machine, tokens)


def _parse_known(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    return machine.new_list([_parse(machine, parser, args, keywords), machine.new_list([])], "tuple")


def _dataclasses(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    made = [machine.met(machine.call(kind, [], {}, ast.Constant(None))) for kind in parser.classes]
    return machine.new_list(made, "tuple")


def _add_class(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    kind = args[0] if args else keywords.get("dataclass", NONE)
    name = _text(args[1] if len(args) > 1 else keywords.get("dest"))
    if name is not None:
        parser.named[name] = kind
    return NONE


def _subparsers(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    parser.choice = _text(keywords.get("dest"))
    return machine.new_tool("parser", parser)


def _add_parser(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    made = _make(machine, [], keywords, ast.Constant(None))
    assert isinstance(made, Tool)
    parser.inner.append((_text(args[0]) or "" if args else "", made.state))
    return made


def _get_default(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    argument = parser.arguments.get(_text(args[0]) or "") if args else None
    return NONE if argument is None else argument.value


def _nothing(machine: Machine, parser: Parser, args: list[Value], keywords: dict[str, Value]) -> Value:
    return NONE


_METHODS: dict[str, Method] = {
    "add_argument": _add_argument, "add_argument_group": _same, "add_mutually_exclusive_group": _same,
    "set_defaults": _set_defaults, "parse_args": _parse, "parse_known_args": _parse_known,
    "parse_intermixed_args": _parse, "parse_args_into_dataclasses": _dataclasses, "parse_args_and_config": _dataclasses,
    "add_arguments": _add_class, "add_class_arguments": _add_class, "add_subparsers": _subparsers,
    "add_parser": _add_parser, "get_default": _get_default, "print_help": _nothing, "error": _nothing,
    "add": _add_argument, "add_arg": _add_argument, "parse": _parse,
}  # fmt: skip


# ---- flags, options and classes in place of a parser


def _flag(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``flags.DEFINE_integer("steps", 100, "help")``; kept among the names of the module."""
    name = _text(args[0]) if args else _text(keywords.get("name"))
    value = args[1] if len(args) > 1 else keywords.get("default", NONE)
    if name is not None:
        machine.names_of(machine.frame.file)[flag_key(name)] = value
        if not machine.frame.name:
            machine.frame.names[flag_key(name)] = value
    return machine.new_dict({"value": value, "default": value, "name": Const(name)}, "namespace")


def flag_key(name: str) -> str:
    return f"<flag> {name}"


def flag(machine: Machine, name: str) -> Value:
    """``FLAGS.name``: as the module at work, or another that has been read, defines it."""
    for path in (machine.frame.file, *machine.modules):
        found = machine.names_of(path).get(flag_key(name))
        if isinstance(found, Value):
            return found
    return Hole(name)


def run_main(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``app.run(main)``, ``fire.Fire(main)``: the function is called."""
    function = args[0] if args else keywords.get("main", keywords.get("component", NONE))
    if isinstance(function, (Function, Class)):
        return machine.call(function, [], {}, node)
    return NONE


def from_class(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    """``tyro.cli(Args)``: the class with its defaults, or a call of the function."""
    kind = args[0] if args else keywords.get("config_class")
    if "default" in keywords:
        return keywords["default"]
    return machine.met(machine.call(kind, [], {}, node)) if isinstance(kind, (Class, Function)) else None


def _option(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    """``x: int = typer.Option(3)``."""
    if args and not (isinstance(args[0], Const) and args[0].value is ...):
        return args[0]
    return keywords.get("default")


def from_decorators(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Value]:
    """The arguments that click's decorators give a function."""
    found: dict[str, Value] = {}
    for each in node.decorator_list:
        if not isinstance(each, ast.Call) or not isinstance(each.func, (ast.Attribute, ast.Name)):
            continue
        called = each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id
        if called not in ("option", "argument"):
            continue
        parser = Parser()
        args = [machine.value(argument) for argument in each.args]
        keywords = {keyword.arg: machine.value(keyword.value) for keyword in each.keywords if keyword.arg}
        named = [a for a in args if isinstance(a, Const) and isinstance(a.value, str) and a.value.isidentifier()]
        if _is_true(keywords.pop("is_flag", None)):
            keywords["action"] = Const("store_true")
        kind = keywords.get("type")
        if isinstance(kind, Hole) or (isinstance(kind, External) and not kind.name.startswith("builtins.")):
            keywords.pop("type")
        if called == "option" and named:
            keywords["dest"] = named[0]
        parser.add(machine, args, keywords)
        found.update({name: argument.value for name, argument in parser.arguments.items()})
    return found


_FLAGS = (
    "string",
    "integer",
    "float",
    "bool",
    "boolean",
    "enum",
    "list",
    "multi_string",
    "multi_integer",
    "spaceseplist",
)
BY_LAST_NAME: dict[str, Callable[[Machine, list[Value], dict[str, Value], ast.expr], Value | None]] = {
    **{f"DEFINE_{kind}": _flag for kind in _FLAGS},
    "ArgumentParser": _make, "ArgParser": _make, "HfArgumentParser": _make, "TrlParser": _make, "Option": _option,
    "Argument": _option,
}  # fmt: skip


def _destination(flags: tuple[str, ...]) -> str | None:
    if not flags:
        return None
    long = [flag for flag in flags if flag.startswith("--")]
    name = (long or list(flags))[0].lstrip("-").partition("/")[0].replace("-", "_")
    return name or None


def _converted(machine: Machine, kind: Value | None, text: Const) -> Value:
    if isinstance(kind, (External, Function)):
        made = machine.call(kind, [text], {}, ast.Constant(None))
        if isinstance(made, (Const, Sequence, Mapping)):
            return made
    return text


def _first_choice(choices: Value | None) -> Value | None:
    if isinstance(choices, (Sequence, Mapping)) and choices.items:
        if isinstance(choices, Sequence):
            return choices.items[0] if isinstance(choices.items[0], Const) else None
        return lift(next(iter(choices.items)))
    return None


def _text(value: Value | None) -> str | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Const) and bool(value.value)


__all__ = ["BY_LAST_NAME", "Object", "Parser", "flag", "from_class", "from_decorators", "run_main"]
