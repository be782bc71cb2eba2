"""Finds the part of a user's text that gives an example a batch of 1, and changes it to 2.

torch treats sizes of 1 as constants (FX702). Inputs are expressions: each 1 in one is replaced by a 2, and if that
changes the size, it is the deciding one. Runs in the user's interpreter.
"""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxlens.record import Edit, Fix, span_of
from fxlens.sources import targets
from fxlens.sources.files import ERRORS
from fxlens.sources.paths import key
from fxlens.sources.targets import Source, Target

from . import example_inputs
from .keeping import keeping_files
from .scope import scope

if TYPE_CHECKING:
    from fxlib.captures.sizes import Dimension, Inputs
    from fxlib.diagnosis.report import Finding
    from fxlib.ir.span import Span

    from .job import Job

_OWN = ("parent", "inferred", "assumed")
"""Examples that FX Lens found by itself; that of a parent comes from the enclosing model, which has the finding."""
_WHOSE = {"recorded": "The recorded call", "test": "The call in {file}", "workspace": "The call in {file}"}
_CONFIGURATIONS = ("fxlens.toml", "pyproject.toml")


@dataclass(frozen=True)
class _One:
    """A 1 in an expression: its position, and the enclosing expression that makes a tensor."""

    node: ast.Constant
    around: ast.Call


def placed(
    job: Job, namespace: Any, target: Target, module: Any, finding: Finding, has_data: bool
) -> tuple[Finding, list[Fix]] | None:
    """The finding at the deciding 1, with a proven fix; None if no text of the user has it."""
    from fxlib.captures import pins, specification

    source = target.inputs[0]
    if source.source in _OWN:
        return None
    whose = _WHOSE.get(source.source, "The example").format(file=os.path.basename(source.file or "another file"))
    sizes = _Sizes(namespace, module, has_data)
    found = sizes.of(source.text)
    wanted = finding.data["dimensions"]
    dimensions = [each for each in (found.dimensions() if found else ()) if [each.name, each.dim] in wanted]
    finding = dataclasses.replace(finding, message=pins.batch_of_one(dimensions, whose)) if dimensions else finding
    ones = _deciding(source.text, sizes, dimensions) if dimensions else []
    spans = _spans(job, target, source, ones) if ones else []
    here = [each for each in spans if key(each.file) == key(job.path)]
    if here:
        finding = dataclasses.replace(finding, span=here[0], call_path=(here[0],))
    elif source.source == "call" and source.line is not None and (call := _call(job, source)) is not None:
        finding = dataclasses.replace(finding, span=call, call_path=(call,))
    larger = sizes.of(_with_twos(source.text, ones)) if ones else None
    edits = [_two(each) for each in spans] if len(spans) == len(ones) else _comment(target, source, ones, job)
    if not edits or larger is None or not specification.varies(module, larger, dimensions):
        return finding, []
    varying = ", ".join(each.text for each in dimensions)
    fix: Fix = {
        "id": "example-of-two", "title": "Use a batch of 2 in the example", "kind": "rewrite", "capture": "shapes",
        "preferred": True, "checked": True, "assumes": None, "edits": edits,
        "note": f"torch.export takes {varying} as dynamic then, and the program agrees with eager at another size",
    }  # fmt: skip
    return finding, [fix]


class _Sizes:
    """The inputs that an expression makes for a module."""

    def __init__(self, namespace: Any, module: Any, has_data: bool) -> None:
        self.names = scope(namespace)
        self.module, self.has_data = module, has_data

    def of(self, text: str) -> Inputs | None:
        from fxlib.captures.sizes import Inputs

        names = {**self.names, "__fxlens_arguments__": lambda *args, **kwargs: (args, kwargs)}
        try:
            with keeping_files():
                args, kwargs = eval(f"__fxlens_arguments__({text})", names)
            kwargs.update(kwargs.pop("concrete_args", {}))
            given = (args, kwargs) if self.has_data else example_inputs.to_meta((args, kwargs))
            return Inputs(self.module, *given)
        except Exception:
            return None


def _deciding(text: str, sizes: _Sizes, dimensions: list[Dimension]) -> list[_One]:
    """The ones that decide these dimensions' sizes, one for each; empty if some size comes from elsewhere."""
    left, found = list(dimensions), []
    for one in _ones(text):
        other = sizes.of(_with_twos(text, [one]))
        changed = other.dimensions() if other is not None else {}
        mine = [each for each in left if changed.get(each) == 2]
        if mine:
            found.append(one)
            left = [each for each in left if each not in mine]
    return found if not left else []


def _ones(text: str) -> Iterator[_One]:
    """The ones in the order of the text, with the innermost call around each."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except ERRORS:
        return
    assert isinstance(call, ast.Call)
    yield from _below(call, call)


def _below(node: ast.AST, around: ast.Call) -> Iterator[_One]:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1:
        yield _One(node, around)
    for child in ast.iter_child_nodes(node):
        yield from _below(child, node if isinstance(node, ast.Call) else around)


def _with_twos(text: str, ones: list[_One]) -> str:
    lines = f"f({text})".encode().split(b"\n")
    for one in sorted(ones, key=lambda one: (one.node.lineno, one.node.col_offset), reverse=True):
        line = lines[one.node.lineno - 1]
        lines[one.node.lineno - 1] = line[: one.node.col_offset] + b"2" + line[one.node.end_col_offset :]
    return b"\n".join(lines).decode()[2:-1]


# ---- places


def _spans(job: Job, target: Target, source: Source, ones: list[_One]) -> list[Span]:
    """The places where the user wrote these ones; fewer if some were not found."""
    if source.source == "comment":
        return _in_line(job.path, job.text, source.line, source.text, ones)
    if source.source == "config":
        return _in_configuration(job, target, source.text, ones)
    if source.source == "call":
        return [span for one in ones if (span := _in_code(job.path, job.text, source.line, one)) is not None]
    return []


def _in_line(path: str, text: str, number: int | None, written: str, ones: list[_One]) -> list[Span]:
    from fxlib.ir.span import Span

    lines = text.splitlines()
    line = lines[number - 1] if number is not None and number <= len(lines) else ""
    at = line.rfind(written)
    if at < 0 or number is None:
        return []
    start = len(line[:at].encode()) - len("f(")
    columns = [(start + one.node.col_offset, start + (one.node.end_col_offset or 0)) for one in ones]
    return [Span(path, number, first, number, last) for first, last in columns]


def _in_configuration(job: Job, target: Target, written: str, ones: list[_One]) -> list[Span]:
    """In the nearest configuration that has the expression on a line that names the class."""
    folder = os.path.dirname(os.path.abspath(job.path))
    while True:
        for name in _CONFIGURATIONS:
            path = os.path.join(folder, name)
            text = (job.read(path) if os.path.isfile(path) else None) or ""
            for number, line in enumerate(text.splitlines(), 1):
                if written in line and target.name in line.partition("=")[0]:
                    return _in_line(path, text, number, written, ones)
        above = os.path.dirname(folder)
        if above == folder or job.folder is None or key(folder) == key(os.path.abspath(job.folder)):
            return []
        folder = above


def _in_code(path: str, text: str, line: int | None, one: _One) -> Span | None:
    """In the call around it: among the arguments, or in earlier assignments to them."""
    from fxlib.diagnosis.engine import trees

    found = None
    spelled, index = ast.dump(one.around), [*ast.walk(one.around)].index(one.node)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (line is None or node.lineno <= line) and ast.dump(node) == spelled:
            found = [*ast.walk(node)][index]
    return trees.span_of(found, path) if found is not None else None


def _call(job: Job, source: Source) -> Span | None:
    from fxlib.captures.places import Frame, expression_at

    return expression_at(Frame(job.path, source.line or 1))


def _comment(target: Target, source: Source, ones: list[_One], job: Job) -> list[Edit]:
    """A comment above the class, which has precedence over other files."""
    text = f"# fxlens: {target.construct[0].text} <- {_with_twos(source.text, ones)}"
    if source.source in targets.ASKED or not ones or "." in target.name or "\n" in text:
        return []
    end, line = "\r\n" if "\r\n" in job.text else "\n", target.first_line
    return [{"file": job.path, "line": line, "column": 0, "end_line": line, "end_column": 0, "text": f"{text}{end}"}]


def _two(span: Span) -> Edit:
    return {**span_of(span), "text": "2"}
