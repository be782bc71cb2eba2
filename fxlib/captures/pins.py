"""Finds the expressions that fix a dimension of the inputs in an exported program."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from fxlib.captures import symbols, torch_side
from fxlib.captures.interface import parameter
from fxlib.captures.isolation import copied, restored
from fxlib.captures.places import file_tree, shown
from fxlib.captures.replacing import Replacements
from fxlib.captures.sizes import Dimension, Inputs
from fxlib.captures.verdict import Verdict, holds_for
from fxlib.diagnosis.engine.trees import at_span
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["Shapes", "analyse", "batch_of_one", "judge_shapes"]

_SOURCE = re.compile(r"^L\['(?P<name>\w+)'\](?P<rest>(?:\[[^]]+\])*)$")
_STEP = re.compile(r"\[([^]]+)\]")
_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_EQUAL = re.compile(r"Eq\(.+, -?\d+\)$")
_REFUSED = re.compile(r"Guard failed: .+ == -?\d+$", re.MULTILINE)
_MOST_RUNS = 24  # eager runs with other sizes


@dataclass
class Shapes:
    """What is known about the dimensions of the inputs.

    ``inputs`` are the arguments that were used, larger than the example where that has a size of 1. ``free`` are the
    dimensions that stay symbols in the program, ``groups`` those that have to be equal. ``pinned`` maps dimensions that
    the program accepts in one size only, although the model accepts others, to the expression that caused it. ``fixed``
    are those of which the model itself accepts one size only. ``error`` is the exception of torch.export, if any, and
    ``program`` what it gives otherwise.
    """

    inputs: Inputs
    free: set[Dimension] = field(default_factory=set)
    pinned: dict[Dimension, symbols.Pin] = field(default_factory=dict)
    fixed: dict[Dimension, symbols.Pin] = field(default_factory=dict)
    groups: list[set[Dimension]] = field(default_factory=list)
    ones: list[Dimension] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    error: str | None = None
    program: Any = None


def analyse(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict[str, Any],
    replacements: Replacements | None = None,
) -> Shapes:
    """Export with every size as a symbol, and find out which became constants, where, and whether the model needs that.

    With ``replacements`` a model that cannot be exported is analysed beyond its failures.

    Raises:
        TypeError: the arguments do not fit the signature of forward.
    """
    return _Analysis(module, Inputs(module, args, kwargs), replacements).run()


def judge_shapes(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], export: Verdict | None = None
) -> Verdict:
    """What ``torch.export.export`` does with sizes that vary: as a verdict, with one finding for each expression that
    makes a size a constant. ``export`` is the verdict of `judge_export`, beyond whose failures it looks."""
    replacements = None if export is None else export.replaced
    rejected = export is not None and export.outcome != "captured"
    start = time.perf_counter()
    verdict = Verdict("shapes", "captured")
    try:
        shapes = analyse(module, args, kwargs, replacements=replacements)
    except TypeError as error:
        return Verdict("shapes", "unknown", str(error))
    verdict.findings = shapes.findings
    verdict.dimensions = {
        (each.name, each.dim): "free" if each in shapes.free else "pinned" if each in shapes.pinned else "fixed"
        for each in shapes.inputs.dimensions()
    }
    if shapes.error is not None:
        verdict.outcome, verdict.reason = "unknown", f"The model cannot be exported: {shapes.error}"
    elif shapes.pinned:
        dimension, pin = next(iter(shapes.pinned.items()))
        where = f" at line {pin.span.line}" if pin.span is not None else ""
        verdict.outcome, verdict.reason = "pinned", f"{dimension.text} fixed{where}"
    elif rejected:
        verdict.outcome, verdict.reason = (
            "unknown",
            "The model cannot be exported, so there is no program of other sizes",
        )
    verdict.seconds = time.perf_counter() - start
    return verdict


class _Analysis:
    def __init__(self, module: torch.nn.Module, inputs: Inputs, replacements: Replacements | None) -> None:
        self.module = module
        self.given = inputs
        self.replacements = replacements or Replacements(lambda: None)
        self.runs = 0

    def run(self) -> Shapes:
        ones = self._ones()
        inputs = self.given.resized(dict.fromkeys(ones, 2)) if ones else self.given
        shapes = Shapes(inputs, ones=ones)
        found = self._exported(shapes)
        if shapes.error is not None and not found.pins:
            return shapes
        self._sort(shapes, found)
        shapes.findings = [*self._findings(shapes)]
        return shapes

    # ---- eager

    def _accepts(self, inputs: Inputs, sizes: dict[Dimension, int]) -> bool:
        """Whether the model itself runs with these sizes."""
        self.runs += 1
        if self.runs > _MOST_RUNS:
            return False
        other = inputs.resized(sizes)
        try:
            with restored(self.module), torch_side.quiet(), torch.no_grad():
                self.module(*copied(other.args), **copied(other.kwargs))
        except Exception:
            return False
        return True

    def _ones(self) -> list[Dimension]:
        """Dimensions of size 1, which torch treats as constants, for which the model also accepts 2 and 3 (one of them
        may be the size it is broadcast to). All first dimensions are tried together, then each one alone."""
        ones = [each for each, size in self.given.dimensions().items() if size == 1]

        def varies(group: list[Dimension]) -> bool:
            return all(self._accepts(self.given, dict.fromkeys(group, size)) for size in (2, 3))

        first = [each for each in ones if each.dim == 0]
        return first if first and varies(first) else [each for each in ones if varies([each])]

    # ---- export

    def _exported(self, shapes: Shapes) -> symbols.Symbols:
        from torch.export import Dim

        inputs = shapes.inputs
        dims = {each: Dim.AUTO for each, size in inputs.dimensions().items() if size > 1}
        with symbols.recorded() as found, restored(self.module), self.replacements.applied():
            try:
                given, named = copied((inputs.args, inputs.kwargs))
                shapes.program = torch_side.exported(self.module, given, named, inputs.shapes(dims))
            except Exception as error:
                shapes.error = (
                    f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                )
        return found

    def _sort(self, shapes: Shapes, found: symbols.Symbols) -> None:
        """Classify a dimension: free, pinned or fixed."""
        named = {
            source: dimension for source, dimension in ((s, _dimension(s)) for s in found.names.values()) if dimension
        }
        known = shapes.inputs.dimensions()
        shapes.free = {each for each in named.values() if each in known}
        constant: dict[Dimension, symbols.Pin] = {}
        for pin in found.pins:
            dimension = named.get(pin.source)
            if dimension is None or dimension not in known:
                continue
            if isinstance(pin.value, int):
                constant.setdefault(dimension, pin)
            elif isinstance(pin.value, tuple) and (other := named.get(pin.value)) is not None:
                _join(shapes.groups, dimension, other)
        for joined in shapes.groups:
            pins = [constant[each] for each in joined if each in constant]
            for each in joined if pins else ():
                constant.setdefault(each, pins[0])
        shapes.free -= set(constant)
        left = dict(constant)
        while left:
            dimension = next(iter(left))
            group = self._varies_with(shapes, dimension, left)
            if group is None:
                shapes.fixed[dimension] = left.pop(dimension)
                continue
            for each in group:
                if each in left:
                    shapes.pinned[each] = left.pop(each)
            if len(group) > 1:
                for each in group:
                    _join(shapes.groups, dimension, each)

        self._sort_narrow(shapes, found, named)

    def _sort_narrow(self, shapes: Shapes, found: symbols.Symbols, named: dict[tuple[str, int], Dimension]) -> None:
        """Dimensions that stay symbols, but from which something is computed that became a constant, as half of a size
        in ``int(size / 2)``: the program then accepts only the sizes that give the same."""
        known = shapes.inputs.dimensions()
        for condition, path in found.guards if shapes.program is not None else ():
            sizes = map(found.names.get, _SYMBOL.findall(condition)) if _EQUAL.match(condition) else ()
            for dimension in {named[each] for each in sizes if each in named} & shapes.free:
                group = next((set(group) for group in shapes.groups if dimension in group), {dimension})
                other = dict.fromkeys(group, 2 * known[dimension])
                if self._accepts(shapes.inputs, other) and self._refuses(shapes.program, shapes.inputs.resized(other)):
                    shapes.free -= group
                    shapes.pinned |= dict.fromkeys(group, symbols.Pin((dimension.name, dimension.dim), condition, path))

    def _refuses(self, program: Any, inputs: Inputs) -> bool:
        """Whether the program has a condition on these sizes that something equals a constant."""
        try:
            with restored(self.module), torch_side.quiet(), torch.no_grad():
                program.module()(*copied(inputs.args), **copied(inputs.kwargs))
        except Exception as error:
            return _REFUSED.search(str(error)) is not None
        return False

    def _varies_with(self, shapes: Shapes, dimension: Dimension, left: dict[Dimension, Any]) -> set[Dimension] | None:
        """The dimensions that have to change with one for the model to run; None if it accepts this size only."""
        known = shapes.inputs.dimensions()
        size = known[dimension]
        own = next((set(group) for group in shapes.groups if dimension in group), {dimension})
        same = {each for each in left if known[each] == size and each.dim == dimension.dim} | own
        for group in (own, same) if same != own else (own,):
            for other in (size + 1, 2 * size):
                if self._accepts(shapes.inputs, dict.fromkeys(group, other)):
                    return group
        return None

    # ---- findings

    def _findings(self, shapes: Shapes) -> Iterable[Finding]:
        places: dict[Any, list[Dimension]] = {}
        for dimension, pin in shapes.pinned.items():
            places.setdefault(pin.path, []).append(dimension)
        for path, dimensions in places.items():
            what, constant = shown(path[-1] if path else None), shapes.inputs.dimensions()[dimensions[0]]
            says = f"`{what}` makes {_listed(dimensions)} the constant {constant}"
            if isinstance(shapes.pinned[dimensions[0]].value, str):
                says = f"`{what}` makes a constant of what it computes from {_listed(dimensions)}, so the exported "
                says += f"program accepts only sizes that give the same as {constant}"
            yield _finding("FX701", path, f"{says}. Use the size without making it a Python number.", dimensions)
        for dimension in sorted(shapes.fixed):
            found = self._table(shapes, dimension)
            if found is not None:
                yield found
        # Dimensions other than the batch are often 1 for good: channels, heads, broadcast ones.
        if batches := [each for each in shapes.ones if each.dim == 0]:
            span = parameter(self.module, str(batches[0].path[0]))
            yield _finding("FX702", () if span is None else (span,), batch_of_one(batches), batches)

    def _table(self, shapes: Shapes, dimension: Dimension) -> Finding | None:
        """A finding if the model accepts one size only because of an operand such as a table of positions; without it,
        the model runs with another size."""
        pin = shapes.fixed[dimension]
        tree = file_tree(pin.span.file) if pin.span is not None else None
        node = at_span(tree, pin.span) if tree is not None and pin.span is not None else None
        last = shapes.inputs.tensors()[dimension.path].dim() - 1
        # The first dimension is the batch, the last the features, whose number a model fixes.
        if pin.span is None or not isinstance(node, ast.BinOp) or not 0 < dimension.dim < last:
            return None
        for own, change in ((node.right, _left), (node.left, _right)):
            name = ast.unparse(own)
            if not isinstance(own, ast.Attribute) or not name.startswith("self."):
                continue
            with self.replacements.exchanged(pin.span, change):
                if self._varies_with(shapes, dimension, {}) is None:
                    continue
            size = shapes.inputs.dimensions()[dimension]
            text = (
                f"`{name}` has {size} along {dimension.text}, and the model accepts no other. Slice or interpolate it."
            )
            return _finding("FX703", pin.path, text, [dimension])
        return None


def batch_of_one(dimensions: list[Dimension], whose: str = "The example") -> str:
    """The text of a finding about these dimensions; ``whose`` names the example."""
    return (
        f"{whose} has a batch of 1 ({_listed(dimensions)}). torch.export treats sizes of 1 as constants: "
        f"with a dynamic batch, the export raises or its program accepts only 1. {RULES['FX702'].advice}"
    )


def _left(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.BinOp)
    return node.left


def _right(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.BinOp)
    return node.right


def _finding(code: str, path: tuple[Span, ...], message: str, dimensions: list[Dimension]) -> Finding:
    return Finding(
        code,
        RULES[code].severity,
        message,
        path[-1] if path else None,
        (Related("torch.onnx.export with dynamo=True exports in the same way, so its model has the same constant."),),
        path,
        data={
            "captures": {**holds_for("export", code), **holds_for("onnx", code)},
            "dimensions": [[each.name, each.dim] for each in dimensions],
        },
    )


def _listed(dimensions: list[Dimension]) -> str:
    names = [each.text for each in sorted(dimensions)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _join(groups: list[set[Dimension]], one: Dimension, other: Dimension) -> None:
    touched = [group for group in groups if one in group or other in group]
    joined = {one, other}.union(*touched)
    groups[:] = [group for group in groups if group not in touched]
    groups.append(joined)


def _dimension(source: tuple[str, int]) -> Dimension | None:
    """The dimension for torch's name of a size."""
    found = _SOURCE.match(source[0])
    if found is None:
        return None
    path: list[Any] = [found["name"]]
    for step in _STEP.findall(found["rest"]):
        try:
            path.append(ast.literal_eval(step))
        except (SyntaxError, ValueError):
            return None
    return Dimension(tuple(path), source[1])
