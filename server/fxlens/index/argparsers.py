"""Command-line parsers: reads the statements that build one, to get the namespace of its defaults."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from . import values as v
from .machine import Machine


@dataclass
class Argument:
    """One argument of a parser: its default, and its conversion from text."""

    value: v.Value
    kind: v.Value | None = None
    nargs: Any = None
    flags: tuple[str, ...] = ()
    constant: v.Value | None = None
    action: str = ""

    @property
    def is_positional(self) -> bool:
        return bool(self.flags) and not self.flags[0].startswith("-")

    def given(self, machine: Machine, old: v.Value, flag: str, texts: list[str]) -> v.Value:
        """The value after ``flag`` and these texts on the command line."""
        if self.action in ("store_true", "store_false", "store_const"):
            return self.constant or v.NONE
        if self.action == "BooleanOptionalAction":
            return v.Const(flag in self.flags)
        if self.action == "count":
            number = old.value or 0 if isinstance(old, v.Const) else None
            return v.Const(number + 1) if isinstance(number, int) else v.Hole("count")
        if self.action not in ("", "store", "append", "extend", "append_const"):
            return v.Hole("value")
        values = [_converted(machine, self.kind, v.Const(text)) for text in texts]
        is_one = self.nargs in (None, "?")
        made = machine.new_list(values) if not is_one else values[0] if values else self.constant or old
        if self.action in ("", "store"):
            return made
        before = [] if isinstance(old, v.Const) and old.value is None else machine.items_of(old)
        more = machine.items_of(made) if self.action == "extend" else [self.constant or made]
        return v.Hole("items") if before is None or more is None else machine.new_list([*before, *more])


@dataclass
class Parser:
    """The state of an ``argparse.ArgumentParser``."""

    origin: str = ""
    arguments: dict[str, Argument] = field(default_factory=dict)
    defaults: dict[str, v.Value] = field(default_factory=dict)
    inner: list[tuple[str, Parser]] = field(default_factory=list)
    choice: str | None = None  # the attribute for the name of the subcommand
    classes: list[v.Value] = field(default_factory=list)
    named: dict[str, v.Value] = field(default_factory=dict)

    def copied(self, memo: dict[int, v.Value]) -> Parser:
        arguments = {name: replace(each, value=v.copied(each.value, memo)) for name, each in self.arguments.items()}
        inner = [(name, parser.copied(memo)) for name, parser in self.inner]
        return Parser(
            self.origin, arguments, dict(self.defaults), inner, self.choice, list(self.classes), dict(self.named)
        )

    def call(self, machine: Machine, name: str, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        handler = _METHODS.get(name)
        return v.Hole(name) if handler is None else handler(machine, self, args, keywords)

    # ---- what the methods do

    def add(self, machine: Machine, args: list[v.Value], keywords: dict[str, v.Value]) -> None:
        flags = tuple(each.value for each in args if isinstance(each, v.Const) and isinstance(each.value, str))
        name = _text(keywords.get("dest")) or _destination(flags)
        if name is None:
            return
        action = _action(keywords.get("action"))
        if action in ("version", "help"):
            return
        positional = not flags[0].startswith("-") if flags else False
        default = keywords.get("default", self.defaults.get(name))
        constant = keywords.get("const")
        nargs = keywords.get("nargs")
        length = nargs.value if isinstance(nargs, v.Const) else None
        if default is None:
            if action in ("store_true", "store_false"):
                default = v.Const(action == "store_false")
            elif positional and length in ("*", "?"):
                default = v.NONE if length == "?" else machine.new_list([])
            elif positional or _is_true(keywords.get("required")):
                default = _first_choice(keywords.get("choices")) or v.Hole(name)
            else:
                default = v.NONE
        if action in ("store_true", "store_false"):
            constant = v.Const(action == "store_true")
        kind = keywords.get("type")
        if isinstance(default, v.Const) and isinstance(default.value, str) and kind is not None:
            default = _converted(machine, kind, default)
        if isinstance(default, v.Hole):
            default = v.Hole(name)
        self.arguments[name] = Argument(default, kind, length, flags, constant, action)

    def namespace(self, machine: Machine, tokens: list[str]) -> v.Mapping:
        """The result of ``parse_args`` for these arguments."""
        found: dict[Any, v.Value] = {**self.defaults, **{name: each.value for name, each in self.arguments.items()}}
        choices: list[v.Value] = []
        inner, further = self.inner, []
        for at, token in enumerate(tokens):
            if any(token == name for name, _ in inner):
                inner = sorted(inner, key=lambda each: each[0] != token)
                tokens, further = tokens[:at], tokens[at + 1 :]
                break
        for at, (name, parser) in enumerate(inner):
            space = parser.namespace(machine, further if at == 0 else [])
            for key, value in space.items.items():
                if key == "func" or not isinstance(found.get(key, v.NONE), v.Const):
                    choices.append(value)
                found.setdefault(key, value)
            if at == 0 and self.choice:
                found[self.choice] = v.Const(name)
        for kind, value in self.named.items():
            found[kind] = machine.call(value, [], {}, ast.Constant(None)) if isinstance(value, v.Class) else value
        self._override(machine, found, tokens)
        made = machine.new_dict(found, "namespace", origin=self.origin)
        machine.met(made)
        return made

    def _override(self, machine: Machine, found: dict[Any, v.Value], tokens: list[str]) -> None:
        by_flag = {flag: (name, each) for name, each in self.arguments.items() for flag in each.flags}
        waiting = [(name, each) for name, each in self.arguments.items() if each.is_positional]
        left = list(tokens)
        while left:
            flag, is_whole, text = left[0].partition("=")
            texts = [text] if is_whole and _is_flag(flag) else []
            if not _is_flag(flag):
                if not waiting:
                    return
                name, argument = waiting.pop(0)
            else:
                left.pop(0)
                known = by_flag.get(flag) or by_flag.get(flag.replace("--no-", "--", 1))
                if known is None:
                    continue
                name, argument = known
            if argument.action not in _WITHOUT_TEXT and not texts:
                most = {None: 1, "?": 1}.get(argument.nargs, argument.nargs)
                while left and not _is_flag(left[0]) and (not isinstance(most, int) or len(texts) < most):
                    texts.append(left.pop(0))
            made = argument.given(machine, found.get(name, v.NONE), flag, texts)
            found[name] = v.Hole(name) if isinstance(made, v.Hole) else made


_WITHOUT_TEXT = {"store_true", "store_false", "store_const", "append_const", "count", "BooleanOptionalAction"}


def _is_flag(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not text[1].isdigit()


def _action(value: v.Value | None) -> str:
    """The name of an action; ``?`` for one that is not known."""
    if isinstance(value, v.External):
        return value.name.rpartition(".")[2]
    return "" if value is None else _text(value) or "?"


def _make(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    parser = Parser(machine.frame.file)
    parents = machine.items_of(keywords["parents"]) if "parents" in keywords else None
    for parent in parents or ():
        if isinstance(parent, v.Tool) and isinstance(parent.state, Parser):
            parser.arguments.update(parent.state.arguments)
            parser.defaults.update(parent.state.defaults)
    kinds = args[0] if args else keywords.get("dataclass_types")
    every = kinds.items if isinstance(kinds, v.Sequence) else [kinds] if kinds else []
    parser.classes = [each for each in every if isinstance(each, v.Class)]
    return machine.new_tool("parser", parser)


# ---- methods

Method = Callable[[Machine, Parser, list[v.Value], dict[str, v.Value]], v.Value]


def _add_argument(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    if not machine.dead:
        parser.add(machine, args, keywords)
    return v.NONE


def _same(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_tool("parser", parser)  # a group adds to its parser


def _set_defaults(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    for name, value in keywords.items():
        if name in parser.arguments:
            parser.arguments[name].value = value
        elif name != v.OPEN:
            parser.defaults[name] = value
    return v.NONE


def _parse(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    given = args[0] if args else keywords.get("args", v.NONE)
    try:
        texts = v.literal(given)
    except v.Unknown:
        texts = None
    tokens = [each for each in texts if isinstance(each, str)] if isinstance(texts, (list, tuple)) else []
    return parser.namespace(machine, tokens)


def _parse_known(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_list([_parse(machine, parser, args, keywords), machine.new_list([])], "tuple")


def _dataclasses(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    made = [machine.met(machine.call(kind, [], {}, ast.Constant(None))) for kind in parser.classes]
    return machine.new_list(made, "tuple")


def _add_class(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    kind = args[0] if args else keywords.get("dataclass", v.NONE)
    name = _text(args[1] if len(args) > 1 else keywords.get("dest"))
    if name is not None:
        parser.named[name] = kind
    return v.NONE


def _subparsers(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    parser.choice = _text(keywords.get("dest"))
    return machine.new_tool("parser", parser)


def _add_parser(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    made = _make(machine, [], keywords, ast.Constant(None))
    assert isinstance(made, v.Tool)
    parser.inner.append((_text(args[0]) or "" if args else "", made.state))
    return made


def _get_default(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    argument = parser.arguments.get(_text(args[0]) or "") if args else None
    return v.NONE if argument is None else argument.value


def _nothing(machine: Machine, parser: Parser, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return v.NONE


_METHODS: dict[str, Method] = {
    "add_argument": _add_argument, "add_argument_group": _same, "add_mutually_exclusive_group": _same,
    "set_defaults": _set_defaults, "parse_args": _parse, "parse_known_args": _parse_known,
    "parse_intermixed_args": _parse, "parse_args_into_dataclasses": _dataclasses, "parse_args_and_config": _dataclasses,
    "add_arguments": _add_class, "add_class_arguments": _add_class, "add_subparsers": _subparsers,
    "add_parser": _add_parser, "get_default": _get_default, "print_help": _nothing, "error": _nothing,
    "add": _add_argument, "add_arg": _add_argument, "parse": _parse,
}  # fmt: skip


# ---- flags, options and classes in place of a parser


def _flag(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """``flags.DEFINE_integer("steps", 100, "help")``; stored among the names of the module."""
    name = _text(args[0]) if args else _text(keywords.get("name"))
    value = args[1] if len(args) > 1 else keywords.get("default", v.NONE)
    if name is not None:
        machine.names_of(machine.frame.file)[flag_key(name)] = value
        if not machine.frame.name:
            machine.frame.names[flag_key(name)] = value
    return machine.new_dict({"value": value, "default": value, "name": v.Const(name)}, "namespace")


def flag_key(name: str) -> str:
    return f"<flag> {name}"


def flag(machine: Machine, name: str) -> v.Value:
    """``FLAGS.name``, defined by the current module or another one that has been read."""
    for path in (machine.frame.file, *machine.modules):
        found = machine.names_of(path).get(flag_key(name))
        if isinstance(found, v.Value):
            return found
    return v.Hole(name)


def run_main(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """``app.run(main)``, ``fire.Fire(main)``: call the function."""
    function = args[0] if args else keywords.get("main", keywords.get("component", v.NONE))
    if isinstance(function, (v.Function, v.Class)):
        return machine.call(function, [], {}, node)
    return v.NONE


def from_class(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    """``tyro.cli(Args)``: the class with its defaults, or a call of the function."""
    kind = args[0] if args else keywords.get("config_class")
    if "default" in keywords:
        return keywords["default"]
    return machine.met(machine.call(kind, [], {}, node)) if isinstance(kind, (v.Class, v.Function)) else None


def _option(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    """``x: int = typer.Option(3)``."""
    if args and not (isinstance(args[0], v.Const) and args[0].value is ...):
        return args[0]
    return keywords.get("default")


def from_decorators(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, v.Value]:
    """The arguments that click's decorators pass to a function."""
    found: dict[str, v.Value] = {}
    for each in node.decorator_list:
        if not isinstance(each, ast.Call) or not isinstance(each.func, (ast.Attribute, ast.Name)):
            continue
        called = each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id
        if called not in ("option", "argument"):
            continue
        parser = Parser()
        args = [machine.value(argument) for argument in each.args]
        keywords = {keyword.arg: machine.value(keyword.value) for keyword in each.keywords if keyword.arg}
        named = [a for a in args if isinstance(a, v.Const) and isinstance(a.value, str) and a.value.isidentifier()]
        if _is_true(keywords.pop("is_flag", None)):
            keywords["action"] = v.Const("store_true")
        kind = keywords.get("type")
        if isinstance(kind, v.Hole) or (isinstance(kind, v.External) and not kind.name.startswith("builtins.")):
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
BY_LAST_NAME: dict[str, Callable[[Machine, list[v.Value], dict[str, v.Value], ast.expr], v.Value | None]] = {
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


def _converted(machine: Machine, kind: v.Value | None, text: v.Const) -> v.Value:
    return text if kind is None else machine.call(kind, [text], {}, ast.Constant(None))


def _first_choice(choices: v.Value | None) -> v.Value | None:
    if isinstance(choices, (v.Sequence, v.Mapping)) and choices.items:
        if isinstance(choices, v.Sequence):
            return choices.items[0] if isinstance(choices.items[0], v.Const) else None
        return v.lift(next(iter(choices.items)))
    return None


def _text(value: v.Value | None) -> str | None:
    return value.value if isinstance(value, v.Const) and isinstance(value.value, str) else None


def _is_true(value: v.Value | None) -> bool:
    return isinstance(value, v.Const) and bool(value.value)
