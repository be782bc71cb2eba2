"""Classes that declare their fields (dataclasses, pydantic, NamedTuple, attrs, typed argument parsers), and other
classes whose construction is known: dicts with attributes, enumerations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from . import values as v
from .machine import Frame, Machine
from .symbols import Symbol, Symbols

_DECORATORS = {"dataclass", "define", "frozen", "mutable", "attrs", "attr.s", "attr.attrs", "s", "auto_attribs"}
_BASES = {
    "BaseModel", "BaseSettings", "NamedTuple", "Struct", "TypedDict", "Tap", "BaseConfig", "TypedArgs", "Serializable",
    "FairseqDataclass", "JsonSerializable", "FrozenSerializable", "YAMLWizard", "PrintableConfig",
}  # fmt: skip
_DICTS = {"dict", "OrderedDict", "UserDict", "EasyDict", "Munch", "Box", "AttributeDict", "AttrDict", "DotDict"}


def declares_fields(symbols: Symbols, kind: Symbol) -> bool:
    for each in symbols.mro(kind):
        if each.kind == "external":
            if each.name.rpartition(".")[2] in _BASES:
                return True
            continue
        fact = symbols.classes(each.file).get(each.name)
        if fact is not None and any(name.rpartition(".")[2] in _DECORATORS for name, _ in fact.decorators):
            return True
    return False


def is_enum(symbols: Symbols, kind: Symbol) -> bool:
    return any(each.kind == "external" and each.name.endswith(("Enum", "Flag")) for each in symbols.mro(kind))


def is_dict(symbols: Symbols, kind: Symbol) -> bool:
    return any(each.kind == "external" and each.name.rpartition(".")[2] in _DICTS for each in symbols.mro(kind))


def has_defaults(machine: Machine, kind: v.Class) -> bool:
    """Whether a class is a configuration that can be made without arguments: never a module."""
    symbols, symbol = machine.symbols, kind.symbol
    if symbols.is_module(symbol) or is_enum(symbols, symbol):
        return False
    if declares_fields(symbols, symbol):
        return True  # fields without a default become holes
    init = next((fact.init for fact in _facts(symbols, symbol) if "__init__" in fact.methods), None)
    names = symbol.name.rpartition(".")[2].lower()
    is_configuration = any(part in names for part in ("config", "cfg", "args", "params", "settings", "options"))
    return is_configuration and (init is None or all(name[-1:] == "=" or name[:1] == "*" for name in init))


def _facts(symbols: Symbols, kind: Symbol) -> Iterator:
    for each in symbols.mro(kind):
        fact = symbols.classes(each.file).get(each.name) if each.kind == "class" else None
        if fact is not None:
            yield fact


def construct(machine: Machine, kind: v.Class, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value | None:
    """An instance, if the class is one of these; None for ordinary classes."""
    symbols, symbol = machine.symbols, kind.symbol
    if symbols.is_module(symbol):
        return None
    if is_enum(symbols, symbol):
        return v.Apply(kind, args, keywords)
    if is_dict(symbols, symbol):
        return _dict(machine, kind, args, keywords)
    if not declares_fields(symbols, symbol) or "__init__" in {m for f in _facts(symbols, symbol) for m in f.methods}:
        return None
    made = v.Object(kind, [], {}, {}, machine.tick(), (machine.frame.file, machine.frame.line))
    given = dict(keywords)
    open_keywords = given.pop(v.OPEN, None) is not None
    positional, passed = list(args), []
    every = declared(machine, kind)
    for field in every:
        value = field.default
        if field.in_init:
            if positional and not field.keyword_only:
                value = made.keywords[field.name] = positional.pop(0)
            elif field.name in given:
                value = made.keywords[field.name] = given.pop(field.name)
            elif value is None:
                value = made.keywords[field.name] = v.Hole(field.name)
        if field.only_passed:
            passed.append(value or v.Hole(field.name))
        elif value is not None:
            made.fields[field.name] = value
    if open_keywords and not made.fields:
        made.keywords[v.OPEN] = v.Hole("arguments")
    hook = hook_of(symbols, symbol)
    if hook is not None:
        machine.call_method(made, hook, passed, {})
    made.given.update(
        {each.name: made.fields[each.name] for each in every if each.in_init and each.name in made.fields}
    )
    made.changed.clear()
    return made


def hook_of(symbols: Symbols, kind: Symbol) -> Symbol | None:
    """The method that is called with the fields set."""
    names = ("__post_init__", "model_post_init", "__attrs_post_init__")
    return next((found for name in names if (found := symbols.method(kind, name)) is not None), None)


@dataclass
class Field:
    """One field of a class. ``default`` is None if it has none."""

    name: str
    default: v.Value | None
    in_init: bool = True
    keyword_only: bool = False
    only_passed: bool = False
    """To ``__init__`` and the method after it (``InitVar``): no attribute."""


def declared(machine: Machine, kind: v.Class) -> list[Field]:
    """The fields in order."""
    found: dict[str, Field] = {}
    for each in reversed(machine.symbols.mro(kind.symbol)):
        node = machine.workspace.node(each.file, each.name) if each.kind == "class" else None
        if not isinstance(node, ast.ClassDef):
            continue
        machine.files.add(each.file)
        names = machine.class_names_of(kind)
        machine.frames.append(Frame(each.file, each.name, names))
        keyword_only = any(_says(call, "kw_only", True) for call in node.decorator_list)
        try:
            for part in node.body:
                if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
                    continue
                annotation, name = ast.unparse(part.annotation), part.target.id
                if annotation.rpartition(".")[2] == "KW_ONLY":
                    keyword_only = True
                elif "ClassVar" not in annotation and name != "model_config":
                    found[name] = Field(
                        name,
                        None if part.value is None else _default(machine, part.value),
                        not _says(part.value, "init", False),
                        (keyword_only or _says(part.value, "kw_only", True))
                        and not _says(part.value, "kw_only", False),
                        "InitVar" in annotation,
                    )
        finally:
            machine.frames.pop()
    return list(found.values())


def _says(node: ast.AST | None, name: str, wanted: bool) -> bool:
    """Whether a call such as ``field(init=False)`` has this keyword."""
    given = node.keywords if isinstance(node, ast.Call) else []
    return any(each.arg == name and getattr(each.value, "value", None) is wanted for each in given)


def _default(machine: Machine, node: ast.expr) -> v.Value | None:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("field", "Field", "ib", "attrib", "mutable_field", "list_field", "dict_field", "Attr"):
            return _of_field(machine, node, called)
        if called in ("Arg", "Suppress", "Argument", "Option", "arg") and node.keywords:
            return next((machine.value(each.value) for each in node.keywords if each.arg == "default"), None)
    value = machine.value(node)
    return None if isinstance(value, v.Const) and (value.value is ... or value.value == "???") else value


def _of_field(machine: Machine, node: ast.Call, called: str) -> v.Value | None:
    for keyword in node.keywords:
        if keyword.arg == "default":
            value = machine.value(keyword.value)
            return None if isinstance(value, v.Const) and value.value is ... else value
        if keyword.arg in ("default_factory", "factory"):
            return machine.call(machine.value(keyword.value), [], {}, node)
    if called in ("list_field",):
        return machine.new_list([machine.value(each) for each in node.args])
    if node.args and called != "field":
        first = machine.value(node.args[0])
        if called in ("mutable_field", "dict_field"):
            return machine.call(first, [], {}, node)
        return None if isinstance(first, v.Const) and first.value is ... else first
    return None


def external_init(machine: Machine, made: v.Object, args: list[v.Value], keywords: dict[str, v.Value]) -> None:
    """``super().__init__(**kwargs)`` of an installed class: configurations store their arguments."""
    if not machine.symbols.is_module(made.kind.symbol):
        for name, value in keywords.items():
            if name != v.OPEN:
                made.fields.setdefault(name, value)


def _dict(machine: Machine, kind: v.Class, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    """A dict subclass of the workspace: with attribute access if it defines that, as most do."""
    items: dict = {}
    whole = v.OPEN not in keywords
    for each in args:
        if isinstance(each, v.Mapping):
            items.update(each.items)
            whole = whole and each.whole
        elif isinstance(each, v.Hole):
            whole = False
    items.update({name: value for name, value in keywords.items() if name != v.OPEN})
    facts = [fact for fact in _facts(machine.symbols, kind.symbol)]
    plain = not any({"__getattr__", "__getattribute__", "__setattr__"} & set(fact.methods) for fact in facts)
    bases = {b.rpartition(".")[2] for fact in facts for b in fact.bases}
    node = machine.workspace.node(kind.symbol.file, kind.symbol.name)
    text = ast.dump(node) if plain and isinstance(node, ast.ClassDef) else ""
    if plain and bases <= {"dict", "OrderedDict", "UserDict"} and "__getattr__" not in text and "__dict__" not in text:
        return machine.new_dict(items, "dict", whole)
    return machine.new_dict({key: as_config(machine, value) for key, value in items.items()}, "config", whole)


def as_config(machine: Machine, value: v.Value) -> v.Value:
    """A dict whose items can be read as attributes, at every level."""
    if isinstance(value, v.Mapping) and value.kind == "dict":
        items = {key: as_config(machine, each) for key, each in value.items.items()}
        return v.Mapping(items, "config", value.whole, machine.tick(), value.origin)
    if isinstance(value, v.Sequence):
        return v.Sequence(value.kind, [as_config(machine, each) for each in value.items], value.whole, machine.tick())
    return value
