"""YAML, JSON and TOML as plain data, and hydra's composition of many files into one configuration. Independent of
scripts and their values."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from . import yaml_reader

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
WITH_PYTHON = (*SUFFIXES, ".py")
_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_MOST_DEPTH = 8
_MOST_GROUPS = 3
_REPORTS = ({"version", "coverage", "files"}, {"version", "runs", "$schema"}, {"version", "findings"})
"""Top-level keys of `fxlens check`'s JSON and SARIF output and baseline, which contain names of models but are not
configurations."""


def parse(path: str, text: str) -> Any:
    """The data of a file; None if it cannot be read, or is a report."""
    try:
        if path.endswith(".json"):
            data = json.loads(text)
            return None if isinstance(data, dict) and any(data.keys() >= each for each in _REPORTS) else data
        if path.endswith(".toml"):
            return tomllib.loads(text)
        return yaml_reader.read(text)
    except (ValueError, RecursionError):
        return None


# ---- hydra


Chosen: TypeAlias = Mapping[str, str]
"""Options of groups that are taken instead of those that the defaults lists name."""


def compose(
    read: Callable[[str], Any],
    folder: str | None,
    name: str,
    group: str = "",
    depth: int = 0,
    chosen: Chosen = MappingProxyType({}),
) -> dict[Any, Any] | None:
    """The configuration ``name`` in ``folder`` with its defaults list followed."""
    if folder is None or depth > _MOST_DEPTH:
        return None
    data = next(
        (
            found
            for suffix in ("", ".yaml", ".yml")
            if isinstance(found := read(os.path.join(folder, group, f"{name}{suffix}")), dict)
        ),
        None,
    )
    if data is None:
        return None
    own = {key: each for key, each in data.items() if key != "defaults"}
    entries = data.get("defaults")
    if not isinstance(entries, list):
        return own
    made: dict[Any, Any] = {}
    if "_self_" not in entries:
        entries = [*entries, "_self_"]
    for entry in entries:
        if entry == "_self_":
            _merge(made, own)
        elif isinstance(entry, str):
            path, _, leaf = entry.partition("@")[0].rpartition("/")
            place = path.strip("/") if entry.startswith("/") else _below(group, path)
            _merge(made, compose(read, folder, leaf, place, depth + 1, chosen) or {})
        elif isinstance(entry, dict):
            for key, option in entry.items():
                _add_option(made, read, folder, group, str(key), option, depth, chosen)
    return made


def _add_option(
    made: dict[Any, Any],
    read: Callable[[str], Any],
    folder: str,
    group: str,
    key: str,
    option: Any,
    depth: int,
    chosen: Chosen,
) -> None:
    words = key.split()
    if not words or words[0] == "override" or not isinstance(option, (str, list)):
        return
    path, _, package = words[-1].partition("@")
    place = path.strip("/") if path.startswith("/") else _below(group, path)
    option = chosen.get(place, option)
    for each in option if isinstance(option, list) else [option]:
        inner = compose(read, folder, str(each).removesuffix(".yaml"), place, depth + 1, chosen)
        if inner is None:
            continue
        where = package or path.strip("/").replace("/", ".")
        if where in ("_global_", "_here_"):
            where = ""
        _merge(made, _nested(where, inner))


def in_place(read: Callable[[str], Any], path: str, files: Iterable[str]) -> Any:
    """A file as the configuration of the folder above that names its group composes it: with its own defaults list
    followed, and with the values of other groups that it refers to, as far as there are some. ``files`` are those that
    there are."""
    data = read(path)
    if not isinstance(data, dict) or not (isinstance(data.get("defaults"), list) or "${" in str(data)):
        return data
    above, name = os.path.split(os.path.splitext(path)[0])
    group, composed = "", []
    for _ in range(_MOST_GROUPS):
        above, last = os.path.split(above)
        group = _below(last, group)
        for each in sorted(each for each in files if os.path.dirname(each) == above):
            if not _names_group(read(each), group):
                continue
            found: Any = interpolated(compose(read, above, os.path.basename(each), chosen={group: name}) or {})
            for part in group.split("/"):
                found = found.get(part) if isinstance(found, dict) else None
            if isinstance(found, dict):
                composed.append(found)
    return min(composed, key=lambda each: str(each).count("${"), default=data)


def _names_group(data: Any, group: str) -> bool:
    entries = data.get("defaults") if isinstance(data, dict) else None
    keys = [str(key) for each in entries or () if isinstance(each, dict) for key in each]
    return any(key.strip("/") == group for key in keys)


def _below(group: str, path: str) -> str:
    return "/".join(part for part in (group, path) if part)


def _nested(where: str, data: dict[Any, Any]) -> dict[Any, Any]:
    for part in reversed([each for each in where.split(".") if each]):
        data = {part: data}
    return data


def _merge(into: dict[Any, Any], more: dict[Any, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            into[key] = dict(into[key])
            _merge(into[key], value)
        else:
            into[key] = value


def over(base: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    """One configuration overridden by another one."""
    made = dict(base)
    _merge(made, more)
    return made


def interpolated(data: dict[Any, Any]) -> dict[Any, Any]:
    """``${model.dim}`` and ``${.dim}`` replaced by their values; unresolved ones stay."""

    def at(path: str, owners: list[Any], depth: int) -> Any:
        if path.startswith("."):
            up = len(path) - len(path.lstrip("."))
            value: Any = owners[-up] if up <= len(owners) else None
        else:
            value = data
        names = [name for name in re.split(r"[.\[\]]+", path) if name]
        for name in names:
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise LookupError(path)
        return follow(value, owners, depth + 1)

    def follow(value: Any, owners: list[Any], depth: int) -> Any:
        if depth > 40:
            return value
        if isinstance(value, dict):
            return {key: follow(each, [*owners, value], depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            return [follow(each, owners, depth + 1) for each in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        if (whole := _REFERENCE.fullmatch(value)) is not None:
            return _answer(whole[1], lambda path: at(path, owners, depth), value)
        return _REFERENCE.sub(
            lambda match: str(_answer(match[1], lambda path: at(path, owners, depth), match[0])), value
        )

    try:
        return follow(data, [], 0)
    except RecursionError:
        return data


def _answer(reference: str, find: Callable[[str], Any], otherwise: Any) -> Any:
    kind, colon, rest = reference.partition(":")
    if colon:
        # In `${oc.env:NAME,default}` and `${eval:…}` only a default can be known.
        default = rest.partition(",")[2]
        return default if kind in ("oc.env", "env") and default else otherwise
    try:
        return find(reference.strip())
    except LookupError:
        return otherwise
