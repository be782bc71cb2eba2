"""Configuration files and objects: YAML, JSON and TOML that a script reads, hydra's composition, OmegaConf, yacs and
the like."""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from . import bounded, documents
from . import values as v
from .fields import as_config
from .machine import Machine

_MOST_VALUES = 20_000
_SECONDS = 1.0  # for one composition: files and values may refer to each other repeatedly
NOWHERE = ast.Constant(None)
Handler = Callable[[Machine, list[v.Value], dict[str, v.Value], ast.expr], v.Value | None]


@dataclass
class File:
    """An open file, or its text; ``path`` is None if unknown."""

    path: str | None
    name: str = "file"

    def copied(self, memo: dict[int, v.Value]) -> File:
        return self

    def call(self, machine: Machine, name: str, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        if name in ("read", "open"):
            return machine.new_tool("file", self)
        return v.NONE if name in ("write", "close") else v.Hole(name)


def opened(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return machine.new_tool("file", File(_path_of(args[0] if args else keywords.get("file"))))


def load(
    machine: Machine,
    args: list[v.Value],
    keywords: dict[str, v.Value],
    node: ast.expr,
    anything: tuple[str, ...] = documents.SUFFIXES,
    kind: str = "dict",
) -> v.Value:
    """The data of a configuration file: the named one, or else one that has the requested keys."""
    path = _path_of(args[0] if args else next(iter(keywords.values()), None))
    found = existing(machine, path) if path else None
    if found is not None:
        data = machine.workspace.configuration(found)
        machine.files.add(found)
        if data is not None:
            return machine.met(described(machine, data, kind, found))
    suffixes = (os.path.splitext(path)[1],) if path and os.path.splitext(path)[1] else anything
    made = machine.new_dict({}, whole=False)
    made.sources = machine.workspace.configurations(machine.frame.file, suffixes)
    return made


def _loads(suffix: str, kind: str = "dict") -> Handler:
    """``json.loads(text)``, ``yaml.safe_load(file)``: the data of a text, or of a file that is open."""

    def load_it(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        text = args[0].value if args and isinstance(args[0], v.Const) else None
        if not isinstance(text, str) or text.endswith(".toml"):  # `toml.load` takes a path, too
            return load(machine, args, keywords, node)
        data = bounded.within(_SECONDS, lambda: documents.parse(suffix, text), None)
        return v.Hole("data") if data is None else described(machine, data, kind)

    return load_it


def _load_config(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return _as_config(machine, [load(machine, args, keywords, node, kind="config")], {}, node)


def from_file(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """``Config.fromfile(path)`` of mmcv and its copies, which also accepts Python files."""
    return _as_config(machine, [load(machine, args, keywords, node, (".py", *documents.SUFFIXES))], {}, node)


def existing(machine: Machine, path: str) -> str | None:
    """The workspace's configuration file that a path in a script means."""
    parts = [part for part in PurePath(path.replace("\\", "/")).parts if part not in (".", "..", "/")]
    if not parts:
        return None
    workspace = machine.workspace
    for folder in (os.path.dirname(machine.frame.file), workspace.root):
        place = os.path.normpath(os.path.join(folder, path))
        if place in workspace.configuration_files:
            return place
    candidates = workspace.configurations(machine.frame.file, (os.path.splitext(path)[1],))
    for length in range(len(parts), 0, -1):
        tail = os.sep.join(parts[-length:])
        matching = [each for each in candidates if each == tail or each.endswith(os.sep + tail)]
        if matching:
            return matching[0]
    return None


def described(machine: Machine, data: Any, kind: str = "dict", origin: str = "") -> v.Value:
    """Plain data as a value, of bounded size. In a configuration, texts may refer to other values."""
    left = [_MOST_VALUES]
    is_config = kind == "config"
    if is_config and isinstance(data, dict):
        data = bounded.within(_SECONDS, partial(documents.interpolated, data), None)
        if data is None:
            return machine.new_dict({}, kind, whole=False, origin=origin)

    def lifted(item: Any, depth: int) -> v.Value:
        left[0] -= 1
        if depth > 30 or left[0] < 0:
            return v.Hole("data")
        if isinstance(item, dict):
            inner: dict[Any, v.Value] = {}
            for key, each in item.items():
                unknown = each == "???" or (is_config and isinstance(each, str) and "${" in each)
                inner[key] = v.Hole(str(key)) if unknown else lifted(each, depth + 1)
            return machine.new_dict(inner, kind, origin=origin)
        if isinstance(item, (list, tuple)):
            return machine.new_list([lifted(each, depth + 1) for each in item])
        try:
            return v.lift(item)
        except v.Unknown:
            return v.Hole("data") if isinstance(item, v.SCALARS) else v.Const(str(item))

    return lifted(data, 0)


def size(data: Any, names: Container[str], counted: bool = False) -> float:
    """An estimate of the size of what a configuration describes, from the numbers of these names."""
    if isinstance(data, dict):
        return sum(size(each, names, counted or key in names) for key, each in data.items())
    if isinstance(data, (list, tuple)):
        return sum(size(each, names, counted) for each in data)
    is_number = counted and isinstance(data, (int, float)) and not isinstance(data, bool) and math.isfinite(data)
    return math.log2(1 + min(abs(data), 1e300)) if is_number else 0.0


def narrow(machine: Machine, owner: v.Mapping, key: Any) -> bool:
    """Chooses the file that a configuration was read from, if the script does not say: the first with the requested
    key. Returns whether there is one."""
    if not isinstance(key, str):
        return False
    for path in owner.sources[:40]:
        data = machine.workspace.configuration(path)
        if isinstance(data, dict) and key in data:
            machine.files.add(path)
            found = described(machine, data, owner.kind, path)
            assert isinstance(found, v.Mapping)
            for name, value in found.items.items():
                owner.items.setdefault(name, value)
            owner.sources, owner.origin, owner.whole = [], path, True
            return True
    return False


# ---- hydra


def composed(machine: Machine, folder: str | None, name: str) -> v.Value | None:
    """The configuration that ``hydra.main(config_path=folder, config_name=name)`` passes to the decorated function."""
    read: set[str] = set()

    def opened_file(path: str) -> Any:
        read.add(path)
        return machine.workspace.configuration(path)

    def compose() -> v.Value | None:
        data = documents.compose(opened_file, folder, name)
        if data is None:
            return None
        return described(machine, data, "config", os.path.join(folder or "", name))

    data = bounded.within(_SECONDS, compose, None)
    machine.files |= read
    return data


def in_place(machine: Machine, path: str) -> Any:
    """The data of a file, as hydra composes it where it is an option of a group."""
    workspace = machine.workspace

    def opened_file(each: str) -> Any:
        machine.files.add(each)
        return workspace.configuration(each)

    files = workspace.configuration_files
    found = bounded.within(_SECONDS, lambda: documents.in_place(opened_file, path, files), None)
    return workspace.configuration(path) if found is None else found


def hydra_argument(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> v.Value | None:
    """The configuration passed to a decorated ``main``; None without the decorator."""
    for each in node.decorator_list:
        call = each if isinstance(each, ast.Call) else None
        function = call.func if call else each
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if call is None or called not in ("main", "hydra_main", "hydra_runner", "hydra_wrapper"):
            continue
        given = {keyword.arg: machine.value(keyword.value) for keyword in call.keywords}
        path, name = given.get("config_path"), given.get("config_name")
        if not isinstance(name, v.Const) or not isinstance(name.value, str):
            if path is None:
                continue
            name = v.Const("config")
        base = os.path.dirname(machine.frame.file)
        text = str(path.value) if isinstance(path, v.Const) and path.value else "."
        folder = os.path.normpath(os.path.join(base, text))
        found = composed(machine, folder, str(name.value))
        if found is not None:
            return machine.met(found)
    return None


def target(machine: Machine, path: v.Value) -> v.Value:
    """The object at a dotted path: ``src.models.Net``."""
    if not isinstance(path, v.Const) or not isinstance(path.value, str):
        return path if isinstance(path, (v.Class, v.Function)) else v.Hole("target")
    dotted = path.value
    parts = dotted.split(".")
    for end in range(len(parts) - 1, 0, -1):
        source = machine.symbols.modules.resolve(machine.frame.file, 0, ".".join(parts[:end]))
        if source is not None:
            value: v.Value = v.Module(source)
            for part in parts[end:]:
                value = machine.attribute(value, part)
            return value
    named = machine.workspace.named(parts[-1])
    if len(named) == 1 and len(parts) > 1:
        return machine.value_of(named[0])
    return v.External(dotted)


def instantiate(
    machine: Machine, config: v.Value, extra: dict[str, v.Value], node: ast.expr, depth: int = 0
) -> v.Value:
    """``hydra.utils.instantiate``: the object that a configuration with ``_target_`` describes."""
    if isinstance(config, v.Sequence):
        return machine.new_list([instantiate(machine, each, {}, node, depth + 1) for each in config.items])
    if not isinstance(config, v.Mapping) or depth > 12:
        return config
    key = next((each for each in ("_target_", "class_path", "__target__") if each in config.items), None)
    inner = {
        str(name): instantiate(machine, each, {}, node, depth + 1)
        for name, each in config.items.items()
        if name != key and not (isinstance(name, str) and re.fullmatch(r"_\w+_", name))
    }
    if key is None:
        return machine.new_dict(dict(inner), config.kind, config.whole, config.origin)
    if key == "class_path":
        arguments = inner.get("init_args")
        inner = {str(n): v for n, v in arguments.items.items()} if isinstance(arguments, v.Mapping) else {}
    function = target(machine, config.items[key])
    keywords = {**inner, **extra}
    only_some = config.items.get("_partial_")
    if isinstance(only_some, v.Const) and only_some.value:
        return v.Partial(function, [], keywords)
    positional = config.items.get("_args_")
    return machine.call(function, list(machine.items_of(positional) or ()) if positional else [], keywords, node)


# ---- objects


def _as_config(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """``OmegaConf.create(d)``, ``EasyDict(d)``, ``CfgNode()``."""
    first = args[0] if args else None
    if isinstance(first, v.Const) and isinstance(first.value, str):
        if first.value.endswith(documents.SUFFIXES):
            return _load_config(machine, args, keywords, node)
        return _loads(".yaml", "config")(machine, args, keywords, node) or v.Hole("config")
    if isinstance(first, (v.Class, v.Object)):
        first = _structured(machine, first, node)
    items: dict[Any, v.Value] = dict(first.items) if isinstance(first, v.Mapping) else {}
    items.update({name: value for name, value in keywords.items() if name not in (v.OPEN, "new_allowed", "flags")})
    whole = (first.whole if isinstance(first, v.Mapping) else first is None) and v.OPEN not in keywords
    made = as_config(machine, v.Mapping(items, "dict", whole, origin=getattr(first, "origin", "")))
    if isinstance(first, v.Mapping) and isinstance(made, v.Mapping):
        made.sources = first.sources
    return made


def _structured(machine: Machine, value: v.Value, node: ast.expr) -> v.Value:
    """A dataclass as a configuration."""
    made = machine.call(value, [], {}, node) if isinstance(value, v.Class) else value
    if not isinstance(made, v.Object):
        return made
    items = {name: _structured(machine, each, node) for name, each in made.fields.items()}
    return machine.new_dict(dict(items), "config")


def merged(machine: Machine, parts: list[v.Value]) -> v.Value:
    """The first, overridden by each of the others."""
    return _merge(machine, parts, {}, NOWHERE)


def _merge(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    made = _as_config(machine, [], {}, node)
    assert isinstance(made, v.Mapping)
    for each in args:
        if isinstance(each, (v.Class, v.Object)):
            each = _structured(machine, each, node)
        if isinstance(each, v.Mapping):
            _update(made, each, machine)
            made.sources = made.sources or each.sources
    return made


def _update(into: v.Mapping, more: v.Mapping, machine: Machine) -> None:
    into.whole = into.whole and more.whole
    into.origin = into.origin or more.origin
    for key, value in more.items.items():
        old = into.items.get(key)
        if isinstance(old, v.Mapping) and isinstance(value, v.Mapping):
            _update(old, value, machine)
        else:
            into.items[key] = as_config(machine, v.copied(value, {}))


def _container(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    def plain(value: v.Value) -> v.Value:
        if isinstance(value, v.Mapping):
            items = {key: plain(each) for key, each in value.items.items()}
            return machine.new_dict(items, "dict", value.whole, value.origin)
        if isinstance(value, v.Sequence):
            return machine.new_list([plain(each) for each in value.items], value.kind, value.whole)
        return value

    return plain(args[0]) if args else None


def _first(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    return args[0] if args else None


def _empty(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return machine.new_dict({}, "config")


def _select(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if len(args) < 2:
        return None
    value = args[0]
    try:
        for part in str(v.literal(args[1])).split("."):
            value = machine.attribute(value, part)
    except v.Unknown:
        return None
    return args[2] if isinstance(value, v.Hole) and len(args) > 2 else value


BY_NAME: dict[str, Handler] = {
    **{f"yaml.{name}": _loads(".yaml") for name in ("load", "safe_load", "full_load", "unsafe_load")},
    **{f"ruamel.yaml.{name}": _loads(".yaml") for name in ("load", "safe_load")},
    **{f"{module}.{name}": _loads(suffix) for suffix, modules in {
        ".json": ("json", "hjson", "json5", "simplejson"), ".toml": ("toml", "tomllib", "tomli"),
    }.items() for module in modules for name in ("load", "loads")},
    **{f"omegaconf.OmegaConf.{name}": handler for name, handler in {
        "load": _load_config, "create": _as_config, "structured": _as_config, "merge": _merge, "unsafe_merge": _merge,
        "to_container": _container, "to_object": _first, "from_cli": _empty, "from_dotlist": _empty, "select": _select,
    }.items()},
    "mmcv.Config.fromfile": from_file, "mmengine.Config.fromfile": from_file,
    "mmengine.config.Config.fromfile": from_file, "mmcv.utils.Config.fromfile": from_file,
    "munch.munchify": _as_config, "addict.Dict": _as_config, "box.Box": _as_config, "mmcv.Config": _as_config,
    "mmengine.Config": _as_config, "mmengine.ConfigDict": _as_config, "mmcv.ConfigDict": _as_config,
}  # fmt: skip
BY_LAST_NAME: dict[str, Handler] = {
    name: _as_config
    for name in (
        "EasyDict", "Munch", "CfgNode", "DictConfig", "ConfigDict", "AttrDict", "DotMap", "AttributeDict",
        "DefaultMunch",
        "FrozenConfigDict",
    )
}  # fmt: skip


def _path_of(value: v.Value | None) -> str | None:
    if isinstance(value, v.Tool) and isinstance(value.state, File):
        return value.state.path
    if isinstance(value, v.Const) and isinstance(value.value, (str, PurePath)):
        text = str(value.value)
        return text if "\n" not in text and len(text) < 500 else None
    return None
