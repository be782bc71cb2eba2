"""Functions of Python and of installed packages that are carried out here, or kept as they are; all others are holes.

An installed function is kept in an expression only where evaluating it later makes tensors and modules and nothing
else: no file, no network, no process group.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Hashable
from pathlib import PurePath
from typing import Any, cast

from . import argparsers, captures, configs, registries
from .expressions import name_of
from .machine import Machine
from .values import (
    NONE,
    OPEN,
    Apply,
    Attribute,
    Choice,
    Class,
    Const,
    External,
    Function,
    Hole,
    Item,
    Mapping,
    Module,
    Object,
    Operation,
    Partial,
    Sequence,
    Tool,
    Unknown,
    Value,
    copied,
    lift,
    literal,
    truth,
)  # fmt: skip

Handler = Callable[[Machine, list[Value], dict[str, Value], ast.expr], Value | None]
_ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_KEPT = re.compile(
    r"(torch(?!\.(load|save|hub|distributed|utils|optim|multiprocessing|cuda|backends|profiler|jit|onnx|export|manual)\b)"
    r"|torchvision\.(models|ops)|torchaudio\.(models|transforms)|numpy(?!\.(load|save|random\.seed|fromfile|genfromtxt))"
    r"|math|functools|einops|timm|transformers|collections|fractions|types|itertools|operator|enum|argparse)\b"
)
_DENIED = re.compile(r"(^|\.)(from_pretrained|load\w*|save\w*|download\w*|seed\w*|set_\w+|init_process\w*|get_rank)$")
_PURE: dict[str, Callable[..., Any]] = {
    "len": len, "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "set": set,
    "min": min, "max": max, "sum": sum, "abs": abs, "round": round, "divmod": divmod, "sorted": sorted, "any": any,
    "all": all, "repr": repr, "reversed": lambda many: list(reversed(many)), "frozenset": set, "ord": ord, "chr": chr,
    "slice": slice, "complex": complex, "bytes": lambda: b"",
}  # fmt: skip
_MODEL_BACK = re.compile(
    r"(^|\.)(DataParallel|DistributedDataParallel|FullyShardedDataParallel|FSDP|DDP|convert_sync_batchnorm|prepare_model"
    r"|convert_syncbn_model|fully_shard|checkpoint_wrapper|DistributedDataParallelCPU|optimize)$"
)
_MOST_RANGE = 4096


def call(machine: Machine, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """The value of a call to an installed function or class."""
    handler = _TABLE.get(name)
    if handler is None:
        short = name.rpartition(".")[2]
        handler = configs.BY_NAME.get(name) or configs.BY_LAST_NAME.get(short) or _SHORT.get(short)
        handler = handler or argparsers.BY_LAST_NAME.get(short)
    if handler is not None:
        found = handler(machine, args, keywords, node)
        if found is not None:
            return found
    how = captures.kind_of(name)
    if how is not None and (args or keywords):
        machine.note("capture", name, args, keywords, node)
        first = args[0] if args else next(iter(keywords.values()))
        return first if captures.gives_model(name) and _is_model(first) else Hole(name_of(node))
    if _MODEL_BACK.search(name) and (args or keywords):
        return args[0] if args else keywords.get("module", keywords.get("model", Hole("model")))
    module, _, short = name.partition(".")
    if module == "builtins":
        return _builtin(machine, short, args, keywords, node)
    if name.startswith("math.") and not keywords:
        try:
            return lift(getattr(math, short)(*map(literal, args)))
        except (Unknown, *_ERRORS):
            pass
    if is_kept(name):
        return Apply(External(name), args, keywords)
    for each in (*args, *keywords.values()):
        if _is_model(each) or (isinstance(each, Sequence) and any(map(_is_model, each.items))):
            machine.note("call", External(name), args, keywords, node)
            break
    return Hole(name_of(node))


def is_kept(name: str) -> bool:
    """Whether evaluating a call of this function later is harmless."""
    return bool(_KEPT.match(name)) and not _DENIED.search(name)


def _is_model(value: Value) -> bool:
    return isinstance(value, (Object, Choice))


def _builtin(machine: Machine, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if name in _PURE and not keywords:
        try:
            return lift(_PURE[name](*map(literal, args)), machine.tick())
        except Unknown:
            pass
        except _ERRORS:
            return Hole(name_of(node))
    first = args[0] if args else None
    if name in ("min", "max", "sum", "round", "abs") and args and all(map(_is_number, args)):
        return Apply(External(f"builtins.{name}"), args, {})
    if name in ("int", "float", "str", "bool") and len(args) == 1 and first is not None and _is_number(first):
        return first if isinstance(first, Hole) else Apply(External(f"builtins.{name}"), args, {})
    return Hole(name_of(node) if name not in ("getattr", "open", "input") else name)


def _is_number(value: Value) -> bool:
    """Whether a value may be a number of which something is known, or several."""
    if isinstance(value, Sequence):
        return value.whole and bool(value.items) and all(map(_is_number, value.items))
    return isinstance(value, (Hole, Apply, Attribute, Item, Operation, Const))


# ---- builtins that look at values which are not plain data


def _len(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if args and isinstance(args[0], (Sequence, Mapping)) and args[0].whole:
        return Const(len(args[0].items))
    if args and isinstance(args[0], Object):
        method = machine.symbols.method(args[0].kind.symbol, "__len__")
        return machine.call_method(args[0], method, [], {}) if method else None
    return None


def _remade(kind: str) -> Handler:
    def make(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
        if not args:
            return machine.new_list([], kind)
        items = machine.items_of(args[0])
        if items is None and isinstance(args[0], Sequence):
            return machine.new_list(list(args[0].items), kind, whole=False)
        return None if items is None else machine.new_list(items, kind)

    return make


def _dict(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    items: dict[Any, Value] = {}
    whole = OPEN not in keywords
    for each in args:
        if isinstance(each, Mapping):
            items.update(each.items)
            whole = whole and each.whole
            continue
        pairs = machine.items_of(each)
        whole = whole and pairs is not None
        for pair in pairs or ():
            inner = machine.items_of(pair)
            if inner is not None and len(inner) == 2 and isinstance(inner[0], Const):
                items[inner[0].value] = inner[1]
    items.update({name: value for name, value in keywords.items() if name != OPEN})
    return machine.new_dict(items, whole=whole)


def _range(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    try:
        found = range(*map(literal, args))
        if len(found) <= _MOST_RANGE:
            return machine.new_list([Const(each) for each in found])
    except (Unknown, *_ERRORS):
        pass
    return Hole("range")


def _enumerate(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    start = args[1] if len(args) > 1 else keywords.get("start", Const(0))
    if items is None or not isinstance(start, Const) or not isinstance(start.value, int):
        return None
    return machine.new_list([machine.new_list([Const(at), x], "tuple") for at, x in enumerate(items, start.value)])


def _zip(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    every = [machine.items_of(each) for each in args]
    known = [each for each in every if each is not None]
    if len(known) < len(every):
        return None
    return machine.new_list([machine.new_list(list(row), "tuple") for row in zip(*known, strict=False)])


def _map(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    return None if items is None else machine.new_list([machine.call(args[0], [x], {}, node) for x in items[:256]])


def _filter(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    if items is None:
        return None
    answers = [truth(machine.call(args[0], [x], {}, node)) if not _is_none(args[0]) else truth(x) for x in items[:256]]
    return machine.new_list([x for x, yes in zip(items, answers, strict=False) if yes], whole=None not in answers)


def _reversed(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    return None if items is None else machine.new_list(items[::-1])


def _sorted(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    if items is None or "key" in keywords:
        return None
    try:
        found = sorted(map(literal, items), reverse=bool(truth(keywords.get("reverse", Const(False)))))
        return lift(found, machine.tick())
    except (Unknown, *_ERRORS):
        return None


def _getattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    owner = args[0] if args else Hole("getattr")
    name = args[1] if len(args) > 1 else Hole("name")
    if not isinstance(name, Const) or not isinstance(name.value, str):
        if isinstance(owner, Module):
            return _all_of(machine, owner, None)
        return Hole(name_of(node.args[1]) if isinstance(node, ast.Call) and len(node.args) > 1 else "getattr")
    found = machine.attribute(owner, name.value)
    if isinstance(owner, Module) and isinstance(found, (Class, Function)):
        return _all_of(machine, owner, found)
    if isinstance(found, Hole):
        if len(args) > 2:
            return args[2]
        named = machine.workspace.named(name.value) if name.value[:1].isupper() else []
        if len(named) == 1:
            return machine.value_of(named[0])
    return found


def _all_of(machine: Machine, owner: Module, first: Value | None) -> Value:
    """What a module offers of the kind that is asked for: ``getattr(models, name)``."""
    facts = machine.symbols.facts.get(owner.file)
    if facts is None:
        return first or Hole("getattr")
    names = [*facts.imports, *(kind.name for kind in facts.classes), *(scope.name for scope in facts.scopes)]
    found: dict[Any, Value] = {}
    for name in names[:200]:
        symbol = machine.symbols.lookup(owner.file, name) if name and "." not in name else None
        if symbol is not None and symbol.kind in ("class", "function") and symbol not in found:
            if symbol.kind == "class" and not machine.symbols.is_module(symbol):
                continue
            if symbol.kind == "function" and isinstance(first, Class):
                continue
            found[symbol] = machine.value_of(symbol)
    others = [x for s, x in found.items() if not _is_same(x, first)]
    options = [first or Hole("getattr"), *others][:40]
    return Choice(options) if len(options) > 1 else options[0]


def _is_same(value: Value, other: Value | None) -> bool:
    if isinstance(value, Class) and isinstance(other, Class):
        return value.symbol == other.symbol
    if isinstance(value, Function) and isinstance(other, Function):
        return (value.file, value.name) == (other.file, other.name)
    return False


def _setattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        machine.set_attribute(args[0], args[1].value, args[2])
    return NONE


def _hasattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) == 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        owner, name = args[0], args[1].value
        if isinstance(owner, Mapping) and owner.whole:
            return Const(name in owner.items)
        if isinstance(owner, Object) and not machine.symbols.is_module(owner.kind.symbol):
            return Const(not isinstance(machine.attribute(owner, name), Hole))
    return None


def _vars(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if not args:
        names = {name: each for name, each in machine.frame.names.items() if isinstance(each, Value)}
        return machine.new_dict(names)
    owner = args[0]
    if isinstance(owner, Mapping):
        return Mapping(owner.items, "dict", owner.whole, owner.born, owner.origin)
    if isinstance(owner, Object):
        return Mapping(cast(dict[Hashable, Value], owner.fields), "dict", True, owner.born)
    return None


def _globals(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    path = machine.frame.file
    names: dict[str, Any] = machine.modules.get(path) or {}
    found = {name: each for name, each in names.items() if isinstance(each, Value)}
    for kind in machine.symbols.classes(path):
        if "." not in kind:
            found.setdefault(kind, machine.value_of(machine.symbols.lookup(path, kind)))  # type: ignore[arg-type]
    return machine.new_dict(found, whole=False)


def _isinstance(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) != 2:
        return None
    kinds = args[1].items if isinstance(args[1], Sequence) else [args[1]]
    answers = [_is_a(machine, args[0], kind) for kind in kinds]
    if True in answers:
        return Const(True)
    return None if None in answers else Const(False)


_TYPES = {
    "int": int, "float": float, "str": str, "bool": bool, "bytes": bytes, "list": list, "tuple": tuple, "dict": dict,
    "set": set, "complex": complex,
}  # fmt: skip


def _is_a(machine: Machine, value: Value, kind: Value) -> bool | None:
    if isinstance(kind, External):
        short = kind.name.rpartition(".")[2]
        if isinstance(value, Const):
            wanted = _TYPES.get(short)
            if wanted is not None:
                return isinstance(value.value, wanted)
            return short in ("Path", "PurePath", "PathLike") if isinstance(value.value, PurePath) else short == "Number"
        if isinstance(value, Sequence):
            return short in (value.kind, "Sequence", "Iterable", "Collection", "Sized")
        if isinstance(value, Mapping):
            plain = value.kind == "dict"
            return short in ("dict", "Mapping", "MutableMapping", "Dict") if plain else short not in _TYPES
        if isinstance(value, (Class, Function, Partial)):
            return short in ("Callable", "type", "partial", "FunctionType")
        if isinstance(value, Object):
            names = {each.name for each in machine.symbols.mro(value.kind.symbol) if each.kind == "external"}
            if kind.name == "torch.nn.Module":
                return machine.symbols.is_module(value.kind.symbol)
            return kind.name in names or (None if short[:1].isupper() and short not in ("Path", "Tensor") else False)
        return None
    if isinstance(kind, Class):
        if isinstance(value, Object):
            return kind.symbol in machine.symbols.mro(value.kind.symbol)
        return False if isinstance(value, (Const, Sequence)) else None
    return None


def _type(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) == 1 and isinstance(args[0], Object):
        return args[0].kind
    if len(args) == 1 and isinstance(args[0], Const) and type(args[0].value).__name__ in _TYPES:
        return External(f"builtins.{type(args[0].value).__name__}")
    return None


def _eval(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if args and isinstance(args[0], Const) and isinstance(args[0].value, str) and len(args[0].value) < 1000:
        try:
            return machine.value(ast.parse(args[0].value.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            pass
    return Hole("eval")


def _next(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if args and isinstance(args[0], Sequence) and args[0].items:
        return args[0].items[0]
    return Hole(name_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "next")


def _first(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return args[0] if args else Hole(name_of(node))


def _second(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return args[1] if len(args) > 1 else Hole(name_of(node))


def _nothing(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return NONE


def _object(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return machine.new_dict(dict(keywords), "namespace", whole=OPEN not in keywords)


def _param(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    return args[0] if len(args) == 1 else machine.new_list(args, "tuple")


def _repeated(times: int) -> Handler:
    """``to_2tuple(7)``: timm's and torch's helpers."""

    def make(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
        if not args or isinstance(args[0], (Sequence, Apply, Item, Attribute)):
            return args[0] if args else None
        return machine.new_list([args[0]] * times, "tuple")

    return make


def _divisible(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    """``make_divisible(channels, 8)``, of which every package of models has one."""
    try:
        number, divisor = literal(args[0]), literal(args[1]) if len(args) > 1 else 8
        return Const(max(divisor, int(number + divisor / 2) // divisor * divisor))
    except (Unknown, *_ERRORS):
        return None


def _constant(value: Any) -> Handler:
    return lambda machine, args, keywords, node: Const(value)


# ---- copying, functools, paths


def _copied(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if not args:
        return Hole("copy")
    if isinstance(args[0], Object) and machine.symbols.is_module(args[0].kind.symbol):
        return args[0]
    made = copied(args[0], {})
    if hasattr(made, "born") and made is not args[0]:
        made.born = machine.tick()
    return made


def _partial(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if not args:
        return Hole("partial")
    return Partial(args[0], args[1:], keywords)


def _reduce(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[1]) if len(args) >= 2 else None
    if not items:
        return None
    total = args[2] if len(args) > 2 else items.pop(0)
    for item in items[:256]:
        total = machine.call(args[0], [total, item], {}, node)
    return total


def _path(function: Callable[..., Any]) -> Handler:
    def call_it(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
        try:
            return lift(function(*[_text(literal(each)) for each in args]))
        except (Unknown, *_ERRORS):
            return Hole("path")

    return call_it


def _text(data: Any) -> Any:
    return str(data) if isinstance(data, PurePath) else data


def _exists(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if args and isinstance(args[0], Const) and isinstance(args[0].value, (str, PurePath)):
        found = configs.existing(machine, str(args[0].value))
        return Const(True) if found else Hole("exists")
    return Hole("exists")


def _getenv(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return args[1] if len(args) > 1 else keywords.get("default", NONE)


def _device(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return Apply(External("torch.device"), [Const("cpu")], {})


def _import_module(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    name = args[0] if args else Hole("module")
    if isinstance(name, Const) and isinstance(name.value, str) and name.value:
        text = name.value
        level = len(text) - len(text.lstrip("."))
        source = machine.symbols.modules.resolve(machine.frame.file, level, text.lstrip("."))
        return External(text) if source is None else Module(source)
    return Hole("module")


def _instantiate(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    config = args[0] if args else keywords.pop("config", Hole("config"))
    return configs.instantiate(machine, config, keywords, node)


def _build(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    for at, each in enumerate(args[:2]):
        other = args[1 - at] if len(args) > 1 else None
        state = other.state if isinstance(other, Tool) else None
        if isinstance(each, Mapping):
            return registries.built(machine, each, getattr(state, "table", None), node)
    return None


_SHORT: dict[str, Handler] = {
    "to_1tuple": _repeated(1), "to_2tuple": _repeated(2), "to_3tuple": _repeated(3), "to_4tuple": _repeated(4),
    "make_divisible": _divisible, "_make_divisible": _divisible, "_single": _repeated(1), "_pair": _repeated(2),
    "_triple": _repeated(3), "_quadruple": _repeated(4),
}  # fmt: skip
_TABLE: dict[str, Handler] = {
    **{f"builtins.{name}": handler for name, handler in {
        "len": _len, "list": _remade("list"), "tuple": _remade("tuple"), "set": _remade("set"), "dict": _dict,
        "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map, "filter": _filter, "sorted": _sorted,
        "getattr": _getattr, "setattr": _setattr, "hasattr": _hasattr, "vars": _vars, "locals": _vars,
        "globals": _globals, "isinstance": _isinstance, "type": _type, "eval": _eval, "next": _next, "iter": _first,
        "print": _nothing, "open": configs.opened, "exec": _nothing, "reversed": _reversed,
    }.items()},
    "copy.deepcopy": _copied, "copy.copy": _copied, "functools.partial": _partial, "functools.reduce": _reduce,
    "collections.OrderedDict": _dict, "typing.cast": _second, "types.SimpleNamespace": _object,
    "argparse.Namespace": _object, "collections.defaultdict": lambda m, a, k, n: m.new_dict({}, whole=False),
    "os.path.join": _path(os.path.join), "os.path.dirname": _path(os.path.dirname), "os.getenv": _getenv,
    "os.path.basename": _path(os.path.basename), "os.path.splitext": _path(os.path.splitext),
    "os.path.abspath": _first, "os.path.realpath": _first, "os.path.expanduser": _first, "os.environ.get": _getenv,
    "os.path.exists": _exists, "os.path.isfile": _exists, "os.fspath": _first, "os.path.normpath": _first,
    "pathlib.Path": _path(PurePath), "pathlib.PurePath": _path(PurePath), "torch.cuda.is_available": _constant(False),
    "torch.backends.mps.is_available": _constant(False), "torch.cuda.device_count": _constant(1),
    "torch.device": _device, "torch.set_default_dtype": _nothing, "torch.manual_seed": _nothing,
    "importlib.import_module": _import_module, "hydra.utils.instantiate": _instantiate,
    "hydra.utils.call": _instantiate, "hydra.utils.get_class": lambda m, a, k, n: configs.target(m,
    a[0]) if a else None,
    "hydra.utils.get_method": lambda m, a, k, n: configs.target(m, a[0]) if a else None,
    "hydra.utils.to_absolute_path": _first, "builtins.str": lambda m, a, k, n: (
        Const(str(a[0].value)) if a and isinstance(a[0], Const) and isinstance(a[0].value, PurePath) else None
    ),
    "mmcv.utils.build_from_cfg": _build, "mmcv.build_from_cfg": _build, "mmengine.registry.build_from_cfg": _build,
    "mmengine.build_from_cfg": _build, "absl.app.run": argparsers.run_main, "fire.Fire": argparsers.run_main,
    "typer.run": argparsers.run_main, "tyro.cli": argparsers.from_class, "pyrallis.parse": argparsers.from_class,
    "simple_parsing.parse": argparsers.from_class,
    "draccus.parse": argparsers.from_class, "pytest.param": _param, "fxlens.load_configuration": configs.load,
}  # fmt: skip


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None
