"""Modules as parts of traced models: their paths, inputs and outputs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from fxlens.record import Node, Record, Span, Target
from fxlens.sources.paths import key

from . import operators
from .drawing import value_text
from .source_nodes import Occurrence, several

_MANY = 4
_MOST = 6  # tensors of one flow
_ATTRIBUTE = re.compile(r"self\.([\w.]+)\(")


@dataclass(frozen=True)
class Instances:
    """The modules of one class in a model; the path of the model itself is empty."""

    target: Target
    paths: list[str]


def instances(record: Record, path: str, name: str, itself: bool = True) -> Instances | None:
    """The instances of a class of the file ``path``, in the largest model of a record that has any; ``itself``: the
    model may be one."""
    here = key(path)
    for target in sorted(record["targets"], key=lambda each: -len(each["nodes"])):
        if target["name"] == name and key(record["path"]) == here:
            if itself and target["nodes"]:
                return Instances(target, [""])
            continue
        if found := _reached(target, {at for at, kind in target["modules"].items() if at and kind == name}, here):
            return Instances(target, found)
    return None


def _reached(target: Target, wanted: Collection[str], here: str) -> list[str]:
    """The modules whose forward is in this file, since classes of other files may have the same name."""
    if not wanted:
        return []
    found: dict[str, None] = {}
    files: dict[str, bool] = {}

    def is_here(span: Span | None) -> bool:
        file = span["file"] if span is not None else ""
        if file not in files:
            files[file] = key(file) == here
        return files[file]

    for node in target["nodes"]:
        above = [each for each in _above(node["module_path"]) if each in wanted and each not in found]
        if above and (is_here(node["span"]) or any(is_here(span) for span in node["call_path"])):
            found.update(dict.fromkeys(above))
    return list(found)


def _above(path: str) -> Iterator[str]:
    """A module's path, and those of its enclosing modules."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def holder(node: Node) -> str:
    """The path of the module that a node calls, or is in."""
    return node["target"] if node["op"] == "call_module" else node["module_path"]


def is_within(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(f"{top}.")


def within(nodes: Sequence[Node], top: str) -> list[Node]:
    """The nodes of a module and its submodules."""
    return [each for each in nodes if each["op"] not in ("placeholder", "output") and is_within(holder(each), top)]


def flow(part: Sequence[Node], nodes: Sequence[Node]) -> str:
    """``f32[1, 3] → f32[1, 8]``: the tensors that a part of a graph takes and returns."""
    own = {node["name"] for node in part}
    outside = {each["name"]: each for each in nodes if each["name"] not in own}
    used = {name for node in outside.values() for name in node["inputs"]} & own or {part[-1]["name"]}
    given = [text for node in part if node["name"] in used and (text := value_text(node))]
    taken = dict.fromkeys(name for node in part for name in node["inputs"] if name in outside)
    took = [text for name in taken if (text := value_text(outside[name]))]
    return f"{several(took, _MOST)} → {several(given, _MOST)}".lstrip() if given else ""


def flows(parts: Sequence[tuple[str, Sequence[Node]]], nodes: Sequence[Node]) -> str:
    """A line for each different flow; if there are several, with the paths that have it."""
    where: dict[str, list[str]] = {}
    for path, part in parts:
        if text := flow(part, nodes):
            where.setdefault(text, []).append(path)
    if len(where) < 2:
        return "".join(where)
    named = {text: several([path for path in dict.fromkeys(paths) if path]) for text, paths in where.items()}
    lines = [f"{paths}: {text}" if paths else text for text, paths in named.items()]
    return "\n".join([*lines[:_MANY], f"and {len(lines) - _MANY} more"] if len(lines) > _MANY else lines)


def contents(part: Sequence[Node]) -> str:
    """``Conv2d ×2, ReLU ×2 and cat``: the operators of a part, without the arithmetic on sizes."""
    sizes = operators.of_sizes(part)
    names = [
        operators.called(node)
        for node in part
        if node["name"] not in sizes and node["op"] != "get_attr" and operators.called(node) != "getitem"
    ]
    return several([f"{name} ×{count}" if count > 1 else name for name, count in Counter(names).items()], 6)


def visits(found: Sequence[Occurrence]) -> list[list[Node]]:
    """The nodes of one call, separately for each execution."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    ended = 0
    for place in found:
        way: list[object] = []
        for span in place.node["call_path"]:
            way += span.values()
            if span == place.span:
                break
        # Calls of one line of a class differ by the module that they are in, those of a loop by where each ends.
        groups.setdefault((ended, *way), []).append(place.node)
        ended += place.ends
    return list(groups.values())


def called_by(visit: Sequence[Node], nodes: Sequence[Node], text: str) -> str:
    """The path of the module that a call with this ``text`` runs; empty if it runs a function."""
    own = {node["name"] for node in visit}
    paths = [
        path
        for path in _above(os.path.commonpath([holder(node).replace(".", "/") for node in visit]).replace("/", "."))
        if own.issuperset(node["name"] for node in within(nodes, path))
    ]
    # A module that only calls another one has the same nodes.
    attribute = _ATTRIBUTE.match(text)
    named = [path for path in paths if attribute and f".{path}".endswith(f".{attribute[1]}")]
    return next(iter(named or paths), "")
