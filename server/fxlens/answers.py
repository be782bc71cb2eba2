"""The answers to the requests that FX Lens adds to LSP, as plain data.

A request that cannot be answered gets a ``Refusal``.  A test compares these types with those of the same names in
``vscode-extension/src/protocol``; there the fields are explained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from fxlens.record import Located, Record
from fxlens.sources.positions import Range

Places = Mapping[str, Sequence["Place"]]
"""Node name to its places: its own expression first, then the calls that lead to it, innermost first."""


Difference = float | Literal["not finite"] | None
"""The difference between two results, if comparable; JSON has no infinity."""
Direction = Literal["TB", "LR"]
"""The direction of a drawing: from top to bottom, or from left to right."""


class Refusal(TypedDict):
    """Why there is no answer; the text is for the user."""

    reason: str


class AskAnswer(TypedDict):
    """What an agent's tool answers, as JSON."""

    text: str


class Place(TypedDict):
    """A range of a file."""

    uri: str
    range: Range


class InputsAnswer(TypedDict):
    """How a model is constructed and called, in the form of its comment; ``select`` is the part to be changed."""

    text: str
    select: Sequence[int]


class InputsVerdict(TypedDict):
    """The result of trying a comment, as a sentence."""

    works: bool
    verdict: str


class NodeInfo(TypedDict):
    """A node of a drawn graph; ``bytes`` are read and written, ``facts`` are pairs of a label and a text."""

    name: str
    op: str
    target: str
    args: str
    inputs: Sequence[str]
    users: Sequence[str]
    module: str
    type: str
    value: str
    params: int
    flops: int | None
    bytes: int | None
    seconds: float | None
    lowering: str | None
    facts: Sequence[Sequence[str]]


class Group(TypedDict):
    """A module in a drawn graph: whether it is expanded, and its number of nodes."""

    title: str
    open: bool
    nodes: int


class GraphView(TypedDict):
    file: str
    target: str
    targets: Sequence[str]
    dot: str
    expanded: Sequence[str]
    elements: Mapping[str, Sequence[str]]
    groups: Mapping[str, Group]
    nodes: Sequence[NodeInfo]
    parameters: bool
    direction: Direction
    partial: str | None


class GraphAnswer(TypedDict):
    """``trace`` identifies the trace that made the graph."""

    view: GraphView
    trace: float | None
    version: int | None
    places: Places


class CodeAnswer(TypedDict):
    text: str
    lines: Mapping[str, Sequence[int]]
    places: Places
    version: int | None


class RecordAnswer(TypedDict):
    record: Record
    version: int | None
    cursor: str | None


class PassInfo(TypedDict):
    """A pass that can be chosen, and the number of nodes that it may change."""

    name: str
    label: str
    detail: str
    places: int


class PassesAnswer(TypedDict):
    passes: Sequence[PassInfo]
    activations: Mapping[str, Sequence[str]]


class InsertedAnswer(TypedDict):
    """A document, and its line (from 0) that an inserted function follows."""

    uri: str
    line: int


class PassResult(TypedDict):
    """The result of applying passes to a model."""

    target: str
    passes: Sequence[str]
    before: str
    after: str
    error: Difference
    nodes: Sequence[int]
    refused: Sequence[str]
    notes: Sequence[str]
    library: bool


class PassAnswer(PassResult):
    construction: str | None
    kept: str | None


class SavePassAnswer(TypedDict):
    saved: bool


class Engine(TypedDict):
    """An engine of ``fxlib.lowering.engines``."""

    name: str
    label: str
    runs_on: str
    precisions: Sequence[str]
    dynamic: bool
    missing: str | None


class EnginesAnswer(TypedDict):
    engines: Sequence[Engine]


class ModelResult(TypedDict):
    """Common to jobs on one model: the model, the result as text, and the nodes that its rows are about."""

    target: str
    text: str
    located: Sequence[Located]


class LowerResult(ModelResult):
    """``report`` is that of ``fxlib.lowering``."""

    report: Mapping[str, object]
    saved: str | None


class LayerTime(TypedDict):
    """The time spent on a node in one run, and the kernels that compute it."""

    node: str
    nodes: Sequence[str]
    kernels: Sequence[str]
    ms: float
    share: float
    span: Sequence[str | int] | None


class Measurement(TypedDict):
    """The fields of a benchmark's row that the server reads."""

    title: str
    layers: Sequence[LayerTime]


class Benchmark(TypedDict):
    rows: Sequence[Measurement]


class BenchResult(ModelResult):
    """``report`` is that of ``fxlib.benchmark``."""

    report: Benchmark
    svg: str


class EstimateResult(ModelResult):
    """``totals`` and ``nodes`` are those of ``fxlib.passes.cost``."""

    device: str | None
    totals: Mapping[str, object]
    nodes: Sequence[Mapping[str, object]]


class ValueRange(TypedDict):
    """The finite values of a tensor, and the number of non-finite ones; a range is None if there is no finite value, or
    if it exceeds a float."""

    low: float | None
    high: float | None
    mean: float | None
    count: int
    nans: int
    infinities: int


class ValuesResult(ModelResult):
    """The values of each node on the example inputs, and the first node with non-finite values."""

    ranges: Mapping[str, ValueRange]
    first: str | None


class Step(TypedDict):
    """A node of a stage: its origins in the first stage, the origin at which it is shown, and its difference from
    eager."""

    name: str
    target: str
    origins: Sequence[str]
    at: str
    max_abs: Difference
    max_rel: Difference


class Stage(TypedDict):
    """One form of a model, or why there is none; a remark about its values, the number of steps with origins, and the
    first one that diverges from eager."""

    name: str
    steps: Sequence[Step]
    problem: str | None
    note: str | None
    mapped: int
    diverges: str | None


class StagesReport(TypedDict):
    """What ``fxlib.lowering.stages`` has found."""

    model: str
    compared: bool
    stages: Sequence[Stage]


class StagesResult(ModelResult):
    """``engines`` are those that can run here, one of which is the last stage."""

    report: StagesReport
    quantize: bool
    engine: str
    engines: Sequence[Engine]


class ModelAnswer(TypedDict):
    """The answer to ``fxlens/lower``, ``fxlens/bench``, ``fxlens/estimate``, ``fxlens/stages`` and ``fxlens/values``:
    the result, without ``located``, and the trace of the text that was run; None if that was not traced yet."""

    result: Mapping[str, object]
    places: Places
    trace: float | None


Tone = Literal["good", "partly", "bad", "none"]


class ModelVerdict(TypedDict):
    """The verdict of a capture on a class: in two or three words, and as a sentence."""

    capture: str
    text: str
    tone: Tone
    reason: str


class Proposal(TypedDict):
    """A proven fix: its title, and its changes as a unified diff."""

    title: str
    diff: str


class Problem(TypedDict):
    """A finding. ``place`` is its file and line as text; ``line`` and ``character`` count from 0, as in LSP, in a
    notebook within its ``cell``, from 1."""

    code: str
    severity: str
    message: str
    place: str
    cell: int | None
    line: int
    character: int
    captures: Sequence[str]
    notes: Sequence[str]
    fixes: Sequence[Proposal]


class ModelRow(TypedDict):
    """A class of a workspace, or a file (without a ``name``) with problems that belong to none of its classes.

    ``place`` is its file and line as text; ``uri`` (in an editor), ``cell`` (from 1, in a notebook) and ``line`` (from
    0) lead there. ``construct`` and ``inputs`` are pairs: how it is constructed or called, and the source of that; or
    empty. ``graph`` is its drawing as SVG, deflated and in base64, if one was made.
    """

    name: str
    place: str
    uri: str
    cell: int | None
    line: int
    role: str
    reason: str
    construct: Sequence[str]
    inputs: Sequence[str]
    verdicts: Sequence[ModelVerdict]
    problems: Sequence[Problem]
    nodes: int
    parameters: int | None
    flops: int | None
    graph: str


class ModelsPart(TypedDict):
    """The rows of the files that have been checked since the last part, and the number ``done`` of all ``files``."""

    rows: Sequence[ModelRow]
    done: int
    files: int


class ModelsAnswer(TypedDict):
    """The answer to ``fxlens/models``; ``rows`` is empty if they were sent in parts."""

    rows: Sequence[ModelRow]
    notes: Sequence[str]
