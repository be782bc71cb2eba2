"""Maps places of a file to nodes of a record, and lines to values. No LSP in it."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fxlens.record import Node, Record, Span, Target, assumed
from fxlens.sources.paths import key

from .drawing import value_text

_KEPT = 2
_last: list[tuple[Record, str, _Models]] = []


@dataclass(frozen=True)
class Occurrence:
    """A range of the file that ``node`` comes from: its own expression, or a call in its call path."""

    span: Span
    node: Node
    own: bool
    target: str
    ends: bool = False
    """Whether ``node`` is the last in a call on the way, as far as that is known."""
    returned: object = None
    """The result of that call."""


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
                Occurrence(
                    span, node, False, target["name"], str(index) in node["returned"], node["returned"].get(str(index))
                )
                for index, span in enumerate(node["call_path"])
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
    """The value of a line of a forward: that of the last expression that ends on it."""

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
    """The value of each traced line of the file that yields a tensor; if several models reach it, that of the relevant
    one (`_Models`)."""
    models = _models(record, path)
    return [of_line[min(of_line, key=models.rank(line))] for line, of_line in sorted(models.values.items())]


def _models(record: Record, path: str) -> _Models:
    """Those of the last records that somebody asked about are kept: hovers ask three times each."""
    for known, file, models in _last:
        if known is record and file == path:
            return models
    made = _Models(record, path)
    _last[:] = [(record, path, made), *_last[: _KEPT - 1]]
    return made


class _Models:
    """Chooses the relevant model for a class: the largest one whose values on its lines equal those of the class's own
    trace, since the lens shows that trace's inputs. Other models use it with other sizes."""

    def __init__(self, record: Record, path: str) -> None:
        self._sizes = {target["name"]: len(target["nodes"]) for target in record["targets"]}
        self._heads = sorted((target["line"], target["name"]) for target in record["targets"])
        self._agreeing: dict[str, set[str]] = {}
        types = {target["name"]: target["modules"] for target in record["targets"]}
        nodes = {target["name"]: {node["name"]: node for node in target["nodes"]} for target in record["targets"]}
        self.places = places(record, path)
        by_line: dict[int, dict[str, list[Occurrence]]] = {}
        for place in self.places:
            by_line.setdefault(place.span["end_line"], {}).setdefault(place.target, []).append(place)
        self.values: dict[int, dict[str, LineValue]] = {}
        """By line and model."""
        for line, of_line in by_line.items():
            for name, on_line in of_line.items():
                if (value := _line_value(line, on_line, types[name], nodes[name])) is not None:
                    self.values.setdefault(line, {})[name] = value

    def rank(self, line: int) -> Callable[[str], tuple[bool, int]]:
        """Orders models by name, the relevant one on a line first."""
        at = bisect_right(self._heads, line, key=lambda head: head[0]) - 1
        agreeing = self._that_agree(self._heads[at][1]) if at >= 0 else self._sizes
        return lambda name: (name not in agreeing, -self._sizes[name])

    def _that_agree(self, own: str) -> set[str]:
        if own not in self._agreeing:
            first = dict((name, line) for line, name in self._heads)[own]
            last = min((line for line, _ in self._heads if line > first), default=sys.maxsize)
            agreeing = {*self._sizes}
            for line, of_line in self.values.items():
                if first <= line < last and own in of_line:
                    wanted = {*of_line[own].values}
                    agreeing -= {name for name, value in of_line.items() if wanted.isdisjoint(value.values)}
            self._agreeing[own] = agreeing
        return self._agreeing[own]


def _returned_text(given: object, nodes: Mapping[str, Node]) -> str:
    """``(f32[2, 8], f32[2])`` for the result of a call."""
    match given:
        case None:
            return "…"
        case str():
            return (value_text(nodes[given]) if given in nodes else "") or "…"
        case Mapping():
            return f"{{{', '.join(f'{name}: {_returned_text(each, nodes)}' for name, each in given.items())}}}"
        case list():
            return f"({', '.join(_returned_text(each, nodes) for each in given)})"
    raise TypeError(given)


def _without_unpacked_items(on_line: list[Occurrence]) -> list[Occurrence]:
    """The places without the trailing items that ``a, (b, c) = …`` unpacks."""
    spans = {place.node["name"]: place.span for place in on_line}
    end = len(on_line)
    while end > 1 and on_line[end - 1].own and (item := on_line[end - 1].node)["target"] == "operator.getitem":
        source = spans.get(item["inputs"][0]) if item["inputs"] else None
        if source is None or _within(source, on_line[end - 1].span):
            break
        end -= 1
    return on_line[:end]


def _line_value(
    line: int,
    on_line: list[Occurrence],
    types: Mapping[str, str],
    nodes: Mapping[str, Node],
) -> LineValue | None:
    # The last computed value of a line is that of its outermost expression, which the line assigns and may unpack.
    on_line = _without_unpacked_items(on_line)
    last = on_line[-1]
    if last.own:
        again = _visits(on_line, last.span, types)
        values = [(text, node["module_path"]) for node in again if (text := value_text(node))]
    else:
        ended = [place for place in on_line if place.ends and place.span == last.span]
        given = [(place.returned, place.node) for place in ended] or [(last.node["name"], last.node)]
        values = [(text, node["module_path"]) for each, node in given if "[" in (text := _returned_text(each, nodes))]
    if not values:
        return None
    return LineValue(line, [text for text, _ in values], [path for _, path in values], last.target)


def several(names: list[str], most: int = 3) -> str:
    """``a, b, c and 5 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _visits(on_line: list[Occurrence], span: Span, types: Mapping[str, str]) -> list[Node]:
    """The last node of each execution of the expression.

    A container of torch, such as Sequential, calls its parts from one expression: these are one visit. A ModuleList
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
    """The places around a position, of the narrowest expression only; several if it was reached more than once.

    If several models have the expression, the relevant one counts (`_Models`).
    """
    models = _models(record, path)
    around = [place for place in models.places if _holds(place.span, line, column)]
    if not around:
        return []
    narrowest = min((place.span for place in around), key=_extent)
    found = [place for place in around if place.span == narrowest]
    counts = min((place.target for place in found), key=models.rank(line))
    found = [place for place in found if place.target == counts]
    return [place for place in found if place.own] or found


def differing(record: Record, path: str, found: list[Occurrence]) -> list[str]:
    """The other models in which the expression of ``found`` has other values; assumed inputs say nothing there."""
    values: dict[str, set[str]] = {}
    for place in _models(record, path).places:
        if place.span == found[0].span:
            values.setdefault(place.target, set()).add(value_text(place.node))
    given = {target["name"] for target in record["targets"] if not assumed(target)}
    return [name for name, texts in values.items() if name in given and texts != values[found[0].target]]


def is_a_node(record: Record, path: str, span: Span) -> bool:
    """Whether a node comes from exactly this stretch."""
    return any(place.own and place.span == span for place in _models(record, path).places)


def models_of(record: Record, path: str, line: int, first: int, last: int) -> list[Target]:
    """The models that say something of a line of a function, which is on the lines from ``first`` to ``last``: those
    of which its value is known, those that have it, those that have the function, and the class that it belongs to;
    of each kind the one that counts there first."""
    models = _models(record, path)
    known = models.values.get(line, {}).keys()
    on_line = {place.target for place in models.places if place.span["line"] <= line <= place.span["end_line"]}
    inside = {place.target for place in models.places if first <= place.span["line"] <= last}
    targets = [target for target in record["targets"] if target["construct"] is not None and target["nodes"]]
    own = [target["name"] for target in targets if target["line"] <= first][-1:]
    rank = models.rank(line)

    def order(target: Target) -> tuple[object, ...]:
        name = target["name"]
        return name not in known, name not in on_line, name not in inside, *rank(name)

    return sorted((each for each in targets if each["name"] in {*inside, *own}), key=order)


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


def _within(inner: Span, outer: Span) -> bool:
    return _holds(outer, inner["line"], inner["column"]) and _holds(outer, inner["end_line"], inner["end_column"])


def _extent(span: Span) -> tuple[int, int]:
    return (span["end_line"] - span["line"], span["end_column"] - span["column"])
