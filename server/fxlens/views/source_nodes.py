"""Which nodes of a record come from which places of a file, and the values of lines. No LSP in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fxlens.record import Node, Record, Span, Target
from fxlens.sources.paths import key

from .drawing import value_text


@dataclass(frozen=True)
class Occurrence:
    """A stretch of the file that ``node`` comes from: its own expression, or a call on the way to it."""

    span: Span
    node: Node
    own: bool
    target: str


def places(record: Record, path: str) -> list[Occurrence]:
    """Every place of every node in this file, in the order of execution."""
    here = key(path)
    known: dict[str, bool] = {}

    def is_here(span: Span) -> bool:
        if span["file"] not in known:
            known[span["file"]] = key(span["file"]) == here
        return known[span["file"]]

    found = []
    for target in record["targets"]:
        for node in target["nodes"]:
            if node["op"] in ("placeholder", "output"):
                continue
            own = node["span"]
            if own is not None and is_here(own):
                found.append(Occurrence(own, node, True, target["name"]))
            found += [
                Occurrence(span, node, False, target["name"])
                for span in node["call_path"]
                if is_here(span) and span != own
            ]
    return found


def files(record: Record) -> frozenset[str]:
    """Keys of the files that the record's nodes come from."""
    nodes = [node for target in record["targets"] for node in target["nodes"]]
    spans = [span for node in nodes for span in (node["span"], *node["call_path"]) if span is not None]
    return frozenset(map(key, {span["file"] for span in spans}))


@dataclass
class LineValue:
    """What a line of a forward gives: the value of the last expression that ends on it."""

    line: int
    values: list[str]
    """One for each time the line was reached, as far as they can be distinguished."""
    modules: list[str] = field(default_factory=list)
    """For each value the path of the module that it is in."""
    target: str = ""

    def text(self) -> str:
        """``f32[2, 8]``, ``f32[2, 8] ×3``, ``f32[2, 8] … f32[2, 64]``."""
        different = list(dict.fromkeys(self.values))
        if len(different) == 1:
            return different[0] if len(self.values) == 1 else f"{different[0]} ×{len(self.values)}"
        return f"{different[0]} … {different[-1]}"

    def each(self) -> list[str]:
        """One line for each different value: ``layer1.0, layer1.1: f32[1, 256, 56, 56]``."""
        where: dict[str, dict[str, None]] = {}
        for value, module in zip(self.values, self.modules, strict=False):
            where.setdefault(value, {})[module or self.target] = None
        return [f"{several(list(modules))}: {value}" for value, modules in where.items()]


def line_values(record: Record, path: str) -> list[LineValue]:
    """The value of each traced line of the file that gives a tensor.

    Where several models reach a line, the largest of them counts: the others are parts of it.
    """
    size = {target["name"]: len(target["nodes"]) for target in record["targets"]}
    types = {target["name"]: target["modules"] for target in record["targets"]}
    by_line: dict[int, list[Occurrence]] = {}
    for place in sorted(places(record, path), key=lambda place: -size[place.target]):
        on_line = by_line.setdefault(place.span["end_line"], [])
        if not on_line or on_line[0].target == place.target:
            on_line.append(place)
    found = []
    for line, on_line in sorted(by_line.items()):
        # What is computed last on a line is its outermost expression, whose value the line assigns.
        last = on_line[-1]
        again = _visits(on_line, last.span, types[last.target]) if last.own else [last.node]
        values = [(text, node["module_path"]) for node in again if (text := value_text(node))]
        if values:
            texts, modules = [text for text, _ in values], [path for _, path in values]
            found.append(LineValue(line, texts, modules, last.target))
    return found


def several(names: list[str], most: int = 3) -> str:
    """``a, b, c and 5 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _visits(on_line: list[Occurrence], span: Span, types: Mapping[str, str]) -> list[Node]:
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


def at(record: Record, path: str, line: int, column: int) -> list[Occurrence]:
    """The places around a position, of the narrowest expression only; several when it was reached more than once.

    Of several models that have the expression, the largest counts.
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


def class_at(record: Record, line: int, column: int) -> Target | None:
    """The target whose name is at a position."""
    return next((target for target in record["targets"] if _holds(target, line, column)), None)


def inputs(target: Target) -> Iterator[str]:
    """``x: f32[1, 3, 224, 224]`` for each input of a target."""
    for node in target["nodes"]:
        if node["op"] == "placeholder":
            text = value_text(node)
            yield f"{node['target']}: {text}" if text else node["target"]


def _holds(span: Span | Target, line: int, column: int) -> bool:
    return (span["line"], span["column"]) <= (line, column) <= (span["end_line"], span["end_column"])


def _extent(span: Span) -> tuple[int, int]:
    return (span["end_line"] - span["line"], span["end_column"] - span["column"])
