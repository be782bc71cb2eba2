"""The statements of generated code: one line of Python for each node.

Names, globals and values are written here; ``body`` puts the statements together, ``function`` adds head and end.
"""

import enum
import functools
import importlib
import keyword
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fxlib.ir.arguments import Target
from fxlib.ir.collections import immutable_dict, immutable_list
from fxlib.ir.format import _get_qualified_name, _origin_type_map, _type_repr, inplace_methods, magic_methods
from fxlib.ir.names import _illegal_names, _Namespace, _parse
from fxlib.ir.node import Node

__all__: list[str] = []

COLORS = {
    "yellow": "\033[33m",
    "cyan": "\033[36m",
    "green": "\033[32m",
    "red": "\033[31m",
    "blue": "\033[34m",
    "dim": "\033[2m",
    "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}
_RESET = "\033[0m"


def _make_color_fn(code: str) -> Callable[[str], str]:
    return lambda text: f"{code}{text}{_RESET}"


def _identity(text: str) -> str:
    return text


def _is_from_torch(obj: object) -> bool:
    """Whether generated code refers to the object by its qualified name below ``torch``."""
    home = getattr(obj, "__module__", None)
    if home is not None:
        return _PUBLIC_TORCH.match(home) is not None
    name = getattr(obj, "__name__", "torch")
    return name != "torch" and any(names.get(name) is obj for names in (vars(torch), vars(torch.nn.functional)))


# Where torch's modules are defined, except those of its compiler.
_PUBLIC_TORCH = re.compile(r"torch(?!\._dynamo\.|\._inductor\.)(\.|$)")


def _quoted(name: str) -> str:
    """The name as a string literal, with any characters: a module may be called ``x"), print("``."""
    plain = name.isprintable() and '"' not in name and "\\" not in name
    return f'"{name}"' if plain else repr(name)


def _format_target(base: str, target: str) -> str:
    """The expression that reads the attribute at a dotted path from ``base``."""
    text = base
    for atom in target.split("."):
        text = f"{text}.{atom}" if atom.isidentifier() else f"getattr({text}, {_quoted(atom)})"
    return text


# operator -> (its template, the same as a % format, its number of operands)
_OPERATORS = {
    getattr(operator, name): (template, template.replace("%", "%%").replace("{}", "%s"), template.count("{}"))
    for name, template in magic_methods.items()
    if hasattr(operator, name)
}
_INPLACE_OPERATORS = {getattr(operator, name): template for name, template in inplace_methods.items()}

# Values whose ``repr`` is their source, given that ``inf``, ``nan``, ``torch`` and ``device`` are globals.
_LITERALS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, type(...), range,
        torch.dtype, torch.device, torch.layout, torch.memory_format,
    }
)  # fmt: skip


_PLAIN = _LITERALS | {Node}
_SEQUENCES, _MAPPINGS = frozenset({tuple, list, immutable_list}), frozenset({dict, immutable_dict})


def is_plain(nodes: Iterable[Node]) -> bool:
    """Whether the code of these nodes is certain to be written, and to compile: what `Writer.deferrable` says once it
    is, seen in a fraction of the time.  False where that is not seen at once."""
    known: set[str] = set()
    for node in nodes:
        op, target, args = node._op, node._target, node._args
        if node.type is not None or not all([type(each) in _PLAIN or _is_plain_value(each) for each in args]):
            return False
        if node._kwargs and not all(map(_is_plain_option, node._kwargs.items())):
            return False
        if op == "call_module" or op == "get_attr":
            if target not in known:
                if not _KEYWORDS.isdisjoint(target.split(".")):
                    return False
                known.add(target)
        elif op == "call_function":
            if (node._meta and node._meta.get("is_wrapped", False)) or not _can_be_named(target):
                return False
        elif op == "call_method":
            if target in _KEYWORDS or type(args[0]) is not Node:
                return False
        elif op == "placeholder":
            if args or not _is_plain_name(target):
                return False
        elif op != "output":
            return False
    return True


def _is_plain_value(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind in _SEQUENCES:
        return all(map(_is_plain_value, value))
    if kind in _MAPPINGS:
        return all(map(_is_plain_value, (*value, *value.values())))
    return kind is slice and all(map(_is_plain_value, (value.start, value.stop, value.step)))


def _is_plain_option(option: tuple[str, Any]) -> bool:
    return _is_plain_name(option[0]) and _is_plain_value(option[1])


@functools.lru_cache(maxsize=4096)
def _is_named(target: Callable[..., Any]) -> bool:
    return bool(_get_qualified_name(target))


def _can_be_named(target: Any) -> bool:
    try:
        return target in _OPERATORS or target in _INPLACE_OPERATORS or _is_named(target)
    except Exception:  # no hash or no name: writing the code raises
        return False


def is_negative(value: Any) -> bool:
    """Whether it is a number whose text begins with a sign."""
    return isinstance(value, (int, float, complex)) and str(value).startswith("-")


class NameClash(Exception):
    """A global needs the name of a node: the code must be written again with new names."""


_KEYWORDS = frozenset(keyword.kwlist)


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _is_plain_type(o: object) -> bool:
    """Whether the text of an annotation is certain to evaluate: every name in it is a global, but subscripts and ``|``
    may refuse what they are given."""
    if isinstance(o, types.UnionType):
        return all(isinstance(a, type) for a in o.__args__)
    if isinstance(o, (types.GenericAlias, typing._GenericAlias)):  # type: ignore[attr-defined]
        return all(map(_is_plain_type, o.__args__))
    return getattr(o, "__origin__", None) is None


def _parts_of_type(o: object) -> tuple[object, tuple[object, ...]]:
    """The text of a type before its brackets, and the types inside them."""
    origin = getattr(o, "__origin__", None)
    if origin is None:
        return o, ()
    old_spelling = _origin_type_map if isinstance(o, typing._GenericAlias) else {}  # type: ignore[attr-defined]
    return old_spelling.get(origin, origin), getattr(o, "__args__", None) or ()


@dataclass
class Options:
    verbose: bool = False
    include_stride: bool = False
    include_device: bool = False
    colored: bool = False
    expanded_def: bool = False
    record_func: bool = False
    additional_meta: list[str] | None = None
    sym_repr: Callable[[Any], str] = repr


class Writer:
    """Writes the statements of one function: keeps its names, its globals, and type declarations."""

    def __init__(self, root_module: str, namespace: _Namespace, options: Options) -> None:
        self.root_module = root_module
        self.namespace = namespace
        self.options = options
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.free_vars: list[str] = []
        self.return_annotation = ""
        self.deferrable = True
        self._names: dict[Node, str] = {}
        self._reserved: set[str] | None = None
        # Whether arguments can be written the quickest way: nodes by their own names, literals without colours.
        self._direct = False
        self._has_default = False
        self._callees: dict[Target, str] = {}
        self._forms: dict[type, Callable[[Writer, Any], str]] = {}
        self._paths: dict[str, str] = {}
        color = COLORS if options.colored else {}
        self.literal = _make_color_fn(color["blue"]) if color else _identity
        self.dim = _make_color_fn(color["dim"]) if color else _identity
        self.paint = {name: _make_color_fn(color[name]) if color else _identity for name in COLORS}

    # names

    def reserve(self, nodes: list[Node]) -> None:
        """Let every node keep its own name, if all of them can; a global that needs one of these raises NameClash.

        Nodes of one graph have different, legal names unless somebody assigned others, so this mostly works and no new
        names are needed.
        """
        names = {node._name for node in nodes}
        if len(names) == len(nodes) and names.isdisjoint(_illegal_names) and names.isdisjoint(self.globals):
            self._reserved = names
            self._direct = not self.options.colored

    def name(self, node: Node) -> str:
        if self._reserved is not None:
            return node._name
        known = self._names.get(node)
        if known is None:
            known = self._names[node] = self.namespace.create_name(node._name, node)
        return known

    def add_global(self, hint: str, obj: Any) -> str:
        """The name of ``obj`` in generated code; it becomes one of the globals unless it is torch's."""
        if _is_from_torch(obj) and obj is not torch.device:
            return _get_qualified_name(obj)
        if getattr(obj, "__module__", None) == "fxlib._symbolic_trace" and self._own_package():
            return _get_qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        if self._reserved is not None and (name in self._reserved or name != _parse(hint)[0]):
            raise NameClash(name)
        if name in self.globals:
            assert self.globals[name] == obj, f"Global name {name} already used for {self.globals[name]}"
        else:
            self.globals[name] = obj
        return name

    def _own_package(self) -> bool:
        """Makes ``fxlib`` itself a global, as ``torch`` is, unless a value of the graph has that name."""
        if "fxlib" not in self.globals:
            if self._reserved is not None and "fxlib" in self._reserved:
                return False
            importlib.import_module("fxlib._symbolic_trace")
            package = sys.modules["fxlib"]
            if self.namespace.create_name("fxlib", package) != "fxlib":
                return False
            self.globals["fxlib"] = package
        return self.globals["fxlib"] is sys.modules["fxlib"]

    def annotation(self, node: Node) -> str:
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def type_text(self, o: object) -> str:
        if isinstance(o, types.UnionType):
            return "|".join([self.type_text(a) for a in o.__args__])
        outer, inner = _parts_of_type(o)
        text = self.add_global(_type_repr(outer), outer)
        return f"{text}[{','.join(map(self.type_text, inner))}]" if inner else text

    # values

    def value(self, arg: Any) -> str:
        kind = type(arg)
        if kind is Node:
            return arg._name if self._reserved is not None else self.name(arg)
        if kind in _LITERALS:
            return self.literal(repr(arg))
        write = self._forms.get(kind)
        if write is None:
            write = self._forms[kind] = next(write for form, write in _FORMS if issubclass(kind, form))
        return write(self, arg)

    def _list(self, arg: list[object]) -> str:
        return f"[{', '.join(self.values(arg))}]"

    def _tuple(self, arg: tuple[object, ...]) -> str:
        if hasattr(arg, "_fields"):
            self._check_text(arg)
            return f"{self.add_global(_get_qualified_name(type(arg)), type(arg))}{tuple(arg)!r}"
        items = self.values(arg)
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _slice(self, arg: slice) -> str:
        return f"slice({', '.join(self.values((arg.start, arg.stop, arg.step)))})"

    def _operator(self, arg: torch._ops.OpOverload) -> str:
        return self.add_global(_get_qualified_name(arg), arg)

    def _enum(self, arg: enum.Enum) -> str:
        # A union of flags has no name, or one that is no identifier.
        if not _is_plain_name(str(arg.name)) or arg.name is None:
            self.deferrable = False
        return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"

    def _dict(self, arg: dict[Any, Any]) -> str:
        self._check_text([*arg, *arg.values()])
        return self.literal(repr(arg))

    def _check_text(self, parts: Iterable[Any]) -> None:
        """Python's own text of a collection is certain to compile where that of each part is."""
        if not all(map(_is_plain_value, parts)):
            self.deferrable = False

    def _tensor(self, arg: torch.Tensor) -> str:
        self.deferrable = False
        return f"torch.Tensor(size={list(arg.size())}, dtype={str(arg.dtype).split('.')[-1]})"

    def _of_numpy(self, arg: Any) -> str:
        """Whether it is a NumPy subclass of a Python number or string; ``np`` is not a global of the code."""
        return self.literal(repr(arg.item())) if type(arg).__module__ == "numpy" else self._other(arg)

    def _other(self, arg: object) -> str:
        self.deferrable = False
        return self.literal(repr(arg))

    def values(self, args: Iterable[Any]) -> list[str]:
        value = self.value
        if not self._direct:
            return [value(a) for a in args]
        return [a._name if (kind := type(a)) is Node else repr(a) if kind in _LITERALS else value(a) for a in args]

    def call_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if self._direct and not kwargs and len(args) == 1 and type(args[0]) is Node:
            return args[0]._name
        texts = self.values(args)
        if kwargs:
            for k, v in kwargs.items():
                texts.append(f"{k} = {self.value(v)}")
                if k in _KEYWORDS or not k.isidentifier():
                    self.deferrable = False
        return ", ".join(texts)

    def path(self, target: str) -> str:
        """The expression that reads the attribute at a dotted path of the module."""
        known = self._paths.get(target)
        if known is None:
            prefix, dot, field = target.rpartition(".")
            owner = self.path(prefix) if dot else self.root_module
            if field.isidentifier():
                known = f"{owner}.{field}"
                if field in _KEYWORDS:
                    self.deferrable = False
            else:
                known = f"getattr({owner}, {_quoted(field)})"
            self._paths[target] = known
        return known

    # statements: each returns one line without its newline, or None

    def placeholder(self, node: Node, annotation: str) -> str | None:
        target, args = node._target, node._args
        default = f" = {self.value(args[0])}" if args else ""
        self.free_vars.append(f"{target}{annotation}{default}")
        raw = target.replace("*", "")
        self._check_parameter(node, raw)
        name = self.name(node)
        return None if raw == name else f"{name} = {raw}"

    def check_type(self, o: object) -> None:
        self.deferrable = self.deferrable and _is_plain_type(o)

    def _check_parameter(self, node: Node, raw: str) -> None:
        """Whether the head of the function is certain to compile with this parameter."""
        has_default = bool(node._args)
        if (
            not _is_plain_name(raw)
            or (self._has_default and not has_default)
            or node._input_nodes
            or not _is_plain_type(node.type)
        ):
            self.deferrable = False
        self._has_default = has_default or raw != node._target

    def call_function(self, node: Node, annotation: str) -> str:
        target, args = node._target, node._args
        callee = self._callees.get(target)
        if callee is None:
            operation = _OPERATORS.get(target)
            if operation is not None:
                name = self.name(node)
                template, quick, operands = operation
                values = self.values(args)
                if target is operator.pow and is_negative(args[0]):
                    values[0] = f"({values[0]})"  # ** binds tighter than the sign
                shown = quick % tuple(values) if len(values) == operands else template.format(*values)
                return f"{name}{annotation} = {shown}"
            template = _INPLACE_OPERATORS.get(target)  # type: ignore[assignment]
            if template is not None:
                values = self.values(args)
                return f"{template.format(*values)};  {self.name(node)}{annotation} = {values[0]}"
            callee = self._callees[target] = self.add_global(_get_qualified_name(target), target)
        if callee == "getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{self.name(node)}{annotation} = {self.value(args[0])}.{args[1]}"
        # Not `meta`, which would be created here for every node. fxlib registers its own operators where it defines
        # them.
        meta = node._meta
        if meta and meta.get("is_wrapped", False) and not callee.startswith("fxlib."):
            self.wrapped[callee] = None
        name = node._name if self._direct else self.name(node)
        return f"{name}{annotation} = {callee}({self.call_arguments(args, node._kwargs)})"

    def call_method(self, node: Node, annotation: str) -> str:
        args, target = node._args, node._target
        first = args[0]
        if self._direct and type(first) is Node:
            name, receiver = node._name, first._name
        else:
            if not isinstance(first, Node):
                self.deferrable = False
            receiver = self.value(first)
            name = self.name(node)
        if target in _KEYWORDS:
            self.deferrable = False
        callee = f"{receiver}.{target}" if target.isidentifier() else _format_target(receiver, target)
        if len(args) == 1 and not node._kwargs:
            return f"{name}{annotation} = {callee}()"
        return f"{name}{annotation} = {callee}({self.call_arguments(args[1:], node._kwargs)})"

    def call_module(self, node: Node, annotation: str) -> str:
        arguments = self.call_arguments(node._args, node._kwargs)
        name = node._name if self._direct else self.name(node)
        return f"{name}{annotation} = {self.path(node._target)}({arguments})"

    def get_attr(self, node: Node, annotation: str) -> str:
        name = node._name if self._direct else self.name(node)
        return f"{name}{annotation} = {self.path(node._target)}"


# How values of each type are written, the most frequent first. All others are written as their ``repr``, which is
# not certain to compile.
_FORMS: tuple[tuple[type, Callable[[Writer, Any], str]], ...] = (
    (list, Writer._list),
    (tuple, Writer._tuple),
    (Node, Writer.name),
    (slice, Writer._slice),
    (torch._ops.OpOverload, Writer._operator),
    (enum.Enum, Writer._enum),
    (torch.Tensor, Writer._tensor),
    *((kind, Writer._of_numpy) for kind in (float, complex, str, bytes)),
    (dict, Writer._dict),
    (object, Writer._other),
)
