"""Which nodes of a record belong to which places of a file, and what there is to say of them; no LSP in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fxlens.sources.paths import key

from .drawing import value_text

Node = dict[str, Any]
Span = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A stretch of the file that ``node`` comes from: its own expression, or a call on the way to it."""

    span: Span
    node: Node
    own: bool
    target: str


def places(record: dict[str, Any], path: str) -> list[Place]:
    """Every place of every node in this file, in the order of execution."""
    here = key(path)
    known: dict[str, bool] = {}

    def is_here(span: Span | None) -> bool:
        if span is None:
            return False
        if span["file"] not in known:
            known[span["file"]] = key(span["file"]) == here
        return known[span["file"]]

    found = []
    for target in record["targets"]:
        for node in target["nodes"]:
            if node["op"] in ("placeholder", "output"):
                continue
            own = node["span"]
            if is_here(own):
                found.append(Place(own, node, True, target["name"]))
            found += [
                Place(span, node, False, target["name"]) for span in node["call_path"] if is_here(span) and span != own
            ]
    return found


def files(record: dict[str, Any]) -> frozenset[str]:
    """Keys of the files that the record's nodes come from."""
    nodes = [node for target in record["targets"] for node in target["nodes"]]
    spans = [span for node in nodes for span in (node["span"], *node["call_path"]) if span is not None]
    return frozenset(map(key, {span["file"] for span in spans}))


@dataclass
class LineValue:
    """What a line of a forward gives: the value of the last expression that ends on it."""

    line: int
    values: list[str]
    """One for each time the line was reached, as far as they can be told apart."""
    modules: list[str] = field(default_factory=list)
    """For each value the path of the module that it is in."""
    target: str = ""

    def text(self, length: int) -> str:
        """``f32[2, 8]``, ``f32[2, 8] ×3``, ``f32[2, 8] … f32[2, 64]``."""
        different = list(dict.fromkeys(self.values))
        if len(different) == 1:
            shown = different[0] if len(self.values) == 1 else f"{different[0]} ×{len(self.values)}"
        else:
            shown = f"{different[0]} … {different[-1]}"
        return shown if len(shown) <= length else shown[: length - 1] + "…"

    def each(self) -> list[str]:
        """One line for each different value: ``layer1.0, layer1.1: f32[1, 256, 56, 56]``."""
        where: dict[str, dict[str, None]] = {}
        for value, module in zip(self.values, self.modules, strict=False):
            where.setdefault(value, {})[module or self.target] = None
        return [f"{several(list(modules))}: {value}" for value, modules in where.items()]


def line_values(record: dict[str, Any], path: str) -> list[LineValue]:
    """The value of each traced line of the file that gives a tensor.

    Where several models reach a line, the largest of them says it: that is the one the others are parts of.
    """
    size = {target["name"]: len(target["nodes"]) for target in record["targets"]}
    types = {target["name"]: target.get("modules") or {} for target in record["targets"]}
    by_line: dict[int, list[Place]] = {}
    for place in sorted(places(record, path), key=lambda place: -size[place.target]):
        on_line = by_line.setdefault(place.span["end_line"], [])
        if not on_line or on_line[0].target == place.target:
            on_line.append(place)
    found = []
    for line, on_line in sorted(by_line.items()):
        # What is computed last on a line is its outermost expression, whose value the line assigns.
        last = on_line[-1]
        again = _visits(on_line, last.span, types[last.target]) if last.own else [last.node]
        told = [(text, node["module_path"]) for node in again if (text := value_text(node))]
        if told:
            found.append(LineValue(line, [text for text, _ in told], [path for _, path in told], last.target))
    return found


def several(names: list[str], most: int = 3) -> str:
    """``a, b, c and 5 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _visits(on_line: list[Place], span: Span, types: dict[str, str]) -> list[Node]:
    """The last node of each time that the expression was reached.

    A container of torch, such as Sequential, calls its parts from one expression: they are one visit. A ModuleList
    calls nothing, so its parts were called one by one.
    """
    found: list[Node] = []
    before = None
    for place in on_line:
        if not place.own or place.span != span:
            before = None
            continue
        parent = place.node["target"].rpartition(".")[0] if place.node["op"] == "call_module" else ""
        if parent and parent == before:
            found.pop()
        before = parent if types.get(parent, "") not in ("ModuleList", "ModuleDict") else None
        found.append(place.node)
    return found


def at(record: dict[str, Any], path: str, line: int, column: int) -> list[Place]:
    """The places around a position, of the narrowest expression only; several when it was reached more than once.

    Of several models that have the expression, the largest tells.
    """
    around = [place for place in places(record, path) if _holds(place.span, line, column)]
    if not around:
        return []
    narrowest = min((place.span for place in around), key=_extent)
    found = [place for place in around if place.span == narrowest]
    size = {target["name"]: len(target["nodes"]) for target in record["targets"]}
    largest = max((place.target for place in found), key=lambda name: size[name])
    found = [place for place in found if place.target == largest]
    return [place for place in found if place.own] or found


def class_at(record: dict[str, Any], line: int, column: int) -> dict[str, Any] | None:
    """The target whose name stands at a position."""
    return next((target for target in record["targets"] if _holds(target, line, column)), None)


def parameters(nodes: Iterable[Node]) -> int:
    """Parameters of the modules that these nodes call; one that is called twice counts once."""
    return sum({node["target"]: node["params"] for node in nodes if node["op"] == "call_module"}.values())


def flops(nodes: Iterable[Node]) -> int | None:
    """Floating-point operations of these nodes, or None where none of them is known."""
    known = [node["flops"] for node in nodes if node["flops"] is not None]
    return sum(known) if known else None


def traffic(node: Node, nodes: dict[str, Node]) -> int | None:
    """Bytes that a node reads and writes: its tensors, and its parameters as if they were of its dtype."""
    sizes = [_bytes(each) for each in (node, *(nodes[name] for name in node["inputs"] if name in nodes))]
    if sizes[0] is None:
        return None
    return sum(size for size in sizes if size is not None) + node["params"] * _itemsize(node)


def _bytes(node: Node) -> int | None:
    shape = node["shape"]
    if shape is None or not all(isinstance(size, int) for size in shape):
        return None
    return math.prod(shape) * _itemsize(node)


def _itemsize(node: Node) -> int:
    bits = re.search(r"\d+", node["dtype"] or "")
    return max(int(bits[0]) // 8, 1) if bits else 1


def predicted(nodes: list[Node]) -> str:
    """``at least 12.3 µs on A100``: the sum of what the data sheet of the device allows; empty where none is set."""
    told = [each["predicted"] for each in nodes if "predicted" in each]
    if not told:
        return ""
    seconds = sum(each["seconds"] for each in told)
    time = f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
    return f"at least {time} on {told[0]['device']}"


def amount(value: int, unit: str) -> str:
    """``236 MFLOPs``: four significant digits at most, with the prefix of the SI."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.4g} {prefix}{unit}"
    return f"{value} {unit}"


def inputs(target: dict[str, Any]) -> Iterator[str]:
    """``x: f32[1, 3, 224, 224]`` for each input of a target."""
    for node in target["nodes"]:
        if node["op"] == "placeholder":
            text = value_text(node)
            yield f"{node['target']}: {text}" if text else node["target"]


def _holds(span: Span, line: int, column: int) -> bool:
    return (span["line"], span["column"]) <= (line, column) <= (span["end_line"], span["end_column"])


def _extent(span: Span) -> tuple[int, int]:
    return (span["end_line"] - span["line"], span["end_column"] - span["column"])
