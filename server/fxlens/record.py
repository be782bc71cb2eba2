"""The record: what one trace of a file found, as plain data that crosses pipes as JSON.

The worker makes it, the server and the command line show it, and ``vscode-extension/src/protocol/record.ts`` is
generated from these types. A record is never changed: later results are overlays (``overlays``). Each kind of entry has
one builder here, so that no field is forgotten.

Lines count from 1, columns from 0 in UTF-8 bytes, as in ``ast``; a span may be in another file than the record's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, cast, overload

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

VERSION = 1

_LONGEST = 4000  # characters of a message

Severity = Literal["error", "warning", "info", "hint"]
Status = Literal["traced", "partial", "failed", "skipped"]
Role = Literal["meant", "root", "other", "aside"]

ABSTRACT = "its forward is left to its subclasses"
"""The reason for models that were skipped."""
Outcome = Literal["captured", "parts", "pinned", "fails", "unknown"]


class Span(TypedDict):
    """A range of a file."""

    file: ReadOnly[str]
    line: ReadOnly[int]
    column: ReadOnly[int]
    end_line: ReadOnly[int]
    end_column: ReadOnly[int]


class Edit(Span):
    """A range of a file and the text that replaces it."""

    text: ReadOnly[str]


class Fix(TypedDict):
    """A change of source that answers a finding.

    ``capture`` is the one it is for: ``fx``, ``export``, ``compile``, or ``shapes``.  ``checked``: it was applied to a
    copy, captured again and compared with eager.  ``preferred``: that proved it, and
    nothing is left that only the code could say: ``assumes`` names what is, such as that a value is a tensor.
    """

    id: ReadOnly[str]
    title: ReadOnly[str]
    kind: ReadOnly[str]
    capture: ReadOnly[str]
    preferred: ReadOnly[bool]
    checked: ReadOnly[bool]
    assumes: ReadOnly[str | None]
    note: ReadOnly[str | None]
    edits: ReadOnly[Sequence[Edit]]


class Related(TypedDict):
    """A message beside a finding: what torch.fx prints, a step of the call path, the value that decided, or a note."""

    message: ReadOnly[str]
    span: ReadOnly[Span | None]
    kind: ReadOnly[str]


class Finding(TypedDict):
    """One problem at one place.

    ``code`` is FX1xx if torch.fx raises, FX2xx if it records something other than eager computes, FX3xx for the set-up
    (import, construction, inputs, time, crash), FX4xx for lowering, FX5xx for torch.export, FX6xx for torch.compile and
    FX7xx for sizes that vary. ``call_path`` leads from the forward's line to ``span``, its last item. ``data`` holds
    facts for fixes. ``captures`` maps the affected captures (``fx``, ``export``, ``compile``, ``onnx``) to the code of
    the problem there, ``severities`` to its severity. ``source`` is ``trace``, ``syntax``, or ``compare`` for a
    comparison of a model with its graph. ``stale`` findings belong to an earlier text, on lines that have not changed
    since.
    """

    code: ReadOnly[str]
    severity: ReadOnly[Severity]
    message: ReadOnly[str]
    span: ReadOnly[Span | None]
    target: ReadOnly[str | None]
    call_path: ReadOnly[Sequence[Span]]
    node: ReadOnly[str | None]
    data: ReadOnly[Mapping[str, str | int | float | bool | None]]
    captures: ReadOnly[Mapping[str, str]]
    severities: ReadOnly[Mapping[str, Severity]]
    related: ReadOnly[Sequence[Related]]
    fixes: ReadOnly[Sequence[Fix]]
    tags: ReadOnly[Sequence[str]]
    source: ReadOnly[str]
    stale: ReadOnly[bool]


class Origin(TypedDict):
    """How a model was constructed or called, and the source of that.

    ``source`` is one of ``sources.targets.ORDER``; ``file`` is the other file that contains it.
    """

    text: ReadOnly[str]
    source: ReadOnly[str]
    line: ReadOnly[int | None]
    file: ReadOnly[str | None]


class Predicted(TypedDict):
    """The minimum time by a device's data sheet, and the launch time of a kernel."""

    device: ReadOnly[str]
    seconds: ReadOnly[float]


class Node(TypedDict):
    """A node of a graph.

    ``settings`` are those of the called module, as in its ``repr``: ``3, 64, kernel_size=(7, 7)``. ``returned``: for
    calls in ``call_path``, by index, that end with this node: the name of the returned node, those of several nested in
    lists and dicts as there, None for other values. ``structure`` describes a value that holds several tensors:
    ``(f32[2, 8], i64[2, 8])``. ``symbolic`` is ``shape`` with dimensions by name: the batch where a name is set, and
    those that vary between recorded calls.  ``params`` counts the parameters of the module, ``flops`` a multiplication
    and its addition as two.
    """

    name: ReadOnly[str]
    op: ReadOnly[str]
    target: ReadOnly[str]
    args: ReadOnly[str]
    inputs: ReadOnly[Sequence[str]]
    span: ReadOnly[Span | None]
    call_path: ReadOnly[Sequence[Span]]
    returned: ReadOnly[Mapping[str, object]]
    module_path: ReadOnly[str]
    module_type: ReadOnly[str]
    settings: ReadOnly[str]
    shape: ReadOnly[Sequence[int | str] | None]
    symbolic: ReadOnly[Sequence[int | str] | None]
    dtype: ReadOnly[str | None]
    structure: ReadOnly[str]
    value: ReadOnly[str]
    params: ReadOnly[int]
    flops: ReadOnly[int | None]
    predicted: ReadOnly[Predicted | None]


class Located(TypedDict):
    """Common to a node and a row of a report: a name, and its place in the source."""

    name: ReadOnly[str]
    span: ReadOnly[Span | None]
    call_path: ReadOnly[Sequence[Span]]


class Untaken(TypedDict):
    """A part of a forward that the trace never reached, and why."""

    span: ReadOnly[Span]
    reason: ReadOnly[str]


class Baked(TypedDict):
    """An expression that was read while tracing, and the value that the graph keeps of it."""

    span: ReadOnly[Span]
    text: ReadOnly[str]
    value: ReadOnly[str]


class Graph(TypedDict):
    """The graph of a model and the forward that it generates.

    ``modules`` maps the path of each module to its class name, ``code_lines`` a node to its first and last line in
    ``code``.
    """

    nodes: ReadOnly[Sequence[Node]]
    modules: ReadOnly[Mapping[str, str]]
    code: ReadOnly[str]
    code_lines: ReadOnly[Mapping[str, Sequence[int]]]


class Verdict(TypedDict):
    """The result of a capture other than torch.fx for a model.

    ``capture`` is ``export``, ``compile``, ``strict``: torch.export with ``strict=True``, or ``shapes``: with sizes
    that vary.  ``outcome``: ``captured`` in one graph, in ``parts``, ``pinned`` to one size, ``fails``, or ``unknown``;
    ``reason`` says why in the last three cases.  ``text`` is a summary of two or three words.  ``breaks`` counts the
    graph breaks, ``graphs`` the graphs; ``fullgraph`` says whether ``torch.compile(fullgraph=True)`` accepts the model.
    ``graph`` holds all graphs; several are modules ``graph 1``, ``graph 2``, …
    """

    capture: ReadOnly[str]
    outcome: ReadOnly[Outcome]
    text: ReadOnly[str]
    reason: ReadOnly[str]
    breaks: ReadOnly[int]
    graphs: ReadOnly[int]
    fullgraph: ReadOnly[bool | None]
    graph: ReadOnly[Graph | None]


class Target(Graph):
    """A model of the file.  The position is that of the class statement's name; ``timings`` are milliseconds.

    ``findings`` come from the trace; ``lowering`` (FX4xx), ``captures`` and ``captured``, the findings of these
    captures (FX5xx to FX7xx), come from later jobs.

    ``role`` is laid over the record (``sources.roles``): ``meant`` to be captured, a ``root`` model, an ``other``
    class, or one used ``aside`` of the models, such as a loss; ``why`` is the reason, in a few words. ``limit`` is the
    highest severity of its shown findings.  ``doubtful``: its code does more than call layers and torch, so that it is
    run side by side with its graph.  ``alone``: forward asks for a CUDA device or a process group, and runs without.
    """

    name: ReadOnly[str]
    line: ReadOnly[int]
    column: ReadOnly[int]
    end_line: ReadOnly[int]
    end_column: ReadOnly[int]
    status: ReadOnly[Status]
    reason: ReadOnly[str | None]
    role: ReadOnly[Role | None]
    why: ReadOnly[str]
    limit: ReadOnly[Severity]
    construct: ReadOnly[Origin | None]
    inputs: ReadOnly[Origin | None]
    findings: ReadOnly[Sequence[Finding]]
    lowering: ReadOnly[Sequence[Finding]]
    captures: ReadOnly[Sequence[Verdict]]
    captured: ReadOnly[Sequence[Finding]]
    taken: ReadOnly[Sequence[Span]]
    untaken: ReadOnly[Sequence[Untaken]]
    baked: ReadOnly[Sequence[Baked]]
    doubtful: ReadOnly[bool]
    alone: ReadOnly[bool]
    timings: ReadOnly[Mapping[str, float]]


def assumed(target: Target) -> bool:
    """Whether the inputs or the construction of a model are assumptions."""
    sources = {origin["source"] for origin in (target["construct"], target["inputs"]) if origin}
    return target["inputs"] is not None and bool(sources & {"inferred", "assumed"})


class Record(TypedDict):
    """What one trace of a file found.

    ``files`` are the workspace files that it imported and the tests that it read, ``asked`` the models for which tests
    were searched: the record is out of date once one of the files changes, or a test names one of the models, or one of
    the environment ``variables``, which Python code has read, has another value.  ``looked_at`` has the states of the
    files of which the content does not count (`sources.files.without_content`), as the code saw them.  What it has
    ``written`` itself, besides reading it, does not count again if its next execution writes it, too.
    ``third_party`` are the installed modules that were imported, in order.  ``notes`` are sentences for the user about
    unfinished work, ``failure`` the traceback of an error in FX Lens itself.  ``limit`` is the highest severity of
    shown findings about running the file.
    """

    version: ReadOnly[int]
    path: ReadOnly[str]
    python: ReadOnly[str | None]
    torch: ReadOnly[str | None]
    executable: ReadOnly[str | None]
    targets: ReadOnly[Sequence[Target]]
    findings: ReadOnly[Sequence[Finding]]
    limit: ReadOnly[Severity]
    output: ReadOnly[str]
    files: ReadOnly[Sequence[str]]
    looked_at: ReadOnly[Mapping[str, str | None]]
    written: ReadOnly[Sequence[str]]
    asked: ReadOnly[Sequence[str]]
    variables: ReadOnly[Sequence[str]]
    third_party: ReadOnly[Sequence[str]]
    timings: ReadOnly[Mapping[str, float]]
    notes: ReadOnly[Sequence[str]]
    failure: ReadOnly[str | None]


class Spanned(Protocol):
    """Has the attributes of a span, such as fxlib's."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...
    @property
    def end_line(self) -> int: ...
    @property
    def end_column(self) -> int: ...


def span(file: str, line: int, column: int = 0, end_line: int | None = None, end_column: int = 0) -> Span:
    """A range of a file; without an end, the beginning of a line."""
    return {
        "file": file, "line": line, "column": column, "end_line": end_line or line, "end_column": end_column,
    }  # fmt: skip


@overload
def span_of(value: Spanned) -> Span: ...
@overload
def span_of(value: Spanned | None) -> Span | None: ...
def span_of(value: Spanned | None) -> Span | None:
    """A span of fxlib's as data."""
    return None if value is None else span(value.file, value.line, value.column, value.end_line, value.end_column)


def related(message: str, at: Span | None = None, kind: str = "note") -> Related:
    return {"message": _bounded(message), "span": at, "kind": kind}


def _bounded(message: str) -> str:
    """Cut a message: parts of it come from user code, such as a class name of megabytes."""
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"


def finding(
    code: str,
    severity: str,
    message: str,
    at: Span | None = None,
    *,
    target: str | None = None,
    call_path: Sequence[Span] = (),
    node: str | None = None,
    data: Mapping[str, Any] | None = None,
    related: Sequence[Related] = (),
    fixes: Sequence[Fix] = (),
    tags: Sequence[str] = (),
    source: str = "trace",
    captures: Mapping[str, str] | None = None,
    severities: Mapping[str, Severity] | None = None,
) -> Finding:
    """A finding. ``data`` is reduced to what JSON can hold. A finding of a trace belongs to torch.fx."""
    if captures is None:
        captures = {"fx": code} if code < "FX3" else {}
    if severities is None:
        severities = dict.fromkeys(captures, cast(Severity, severity))
    plain = {name: each for name, each in (data or {}).items() if isinstance(each, (str, int, float, bool, type(None)))}
    return {
        "code": code, "severity": cast(Severity, severity), "message": _bounded(message), "span": at, "target": target,
        "call_path": list(call_path), "node": node, "data": plain, "captures": dict(captures),
        "severities": dict(severities),
        "related": list(related), "fixes": list(fixes), "tags": list(tags), "source": source, "stale": False,
    }  # fmt: skip


_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def tensor_text(shape: Sequence[int | str], dtype: str | None) -> str:
    """``f32[1, 64, 56, 56]``."""
    match = re.fullmatch(r"([a-z]+)(\d+)", dtype or "")
    short = f"{_SHORT[match[1]]}{match[2]}" if match and match[1] in _SHORT else dtype or ""
    return f"{short}[{', '.join(str(size) for size in shape)}]"


def graded(finding: Finding, severity: Severity) -> Finding:
    """The finding with another severity, for every affected capture."""
    return {**finding, "severity": severity, "severities": dict.fromkeys(finding["severities"], severity)}


def origin(text: str, source: str, line: int | None = None, file: str | None = None) -> Origin:
    return {"text": text, "source": source, "line": line, "file": file}


def target(name: str, at: Span, status: Status = "failed", reason: str | None = None) -> Target:
    """A target of which only its name and place are known; ``at`` is the class's name."""
    return {
        "name": name, "line": at["line"], "column": at["column"], "end_line": at["end_line"],
        "end_column": at["end_column"], "status": status, "reason": reason, "role": None, "why": "",
        "limit": "error", "construct": None, "inputs": None, "findings": [], "lowering": [], "captures": [],
        "captured": [], "taken": [], "untaken": [], "baked": [],
        "doubtful": False, "alone": False, "timings": {}, **NO_GRAPH,
    }  # fmt: skip


NO_GRAPH: Graph = {"nodes": [], "modules": {}, "code": "", "code_lines": {}}


ALL_VARIABLES = "*"
"""In place of the name of an environment variable: all of them."""


def empty_record(path: str) -> Record:
    return {
        "version": VERSION, "path": path, "python": None, "torch": None, "executable": None, "targets": [],
        "findings": [], "limit": "error", "output": "", "files": [], "looked_at": {}, "written": [], "asked": [],
        "variables": [], "third_party": [], "timings": {}, "notes": [], "failure": None,
    }  # fmt: skip


def name_span(target: Target, path: str) -> Span:
    """The name in the class statement of a model of this file."""
    return span(path, target["line"], target["column"], target["end_line"], target["end_column"])
