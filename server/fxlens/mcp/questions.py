"""The questions of agents: the purpose, arguments and answer of each. Independent of the protocol."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fxlens import rules
from fxlens.checking.files import CannotCheck
from fxlens.config.settings import USUAL_CAPTURES
from fxlens.host.outcome import Failed
from fxlens.sources.notebook import is_notebook

from . import answers
from .asking import Asking, NotTrusted, Version

Schema = Mapping[str, Any]
Given = Mapping[str, Any]
_OF_THE_GRAPH: Given = {"captures": USUAL_CAPTURES[:1]}
"""Settings for questions that other captures say nothing of."""
_Answering = Callable[[Asking, Given], Awaitable[tuple[Version, answers.Answer]]]

INSTRUCTIONS = """\
Says whether PyTorch models (nn.Module classes) can be captured as graphs, where they cannot, and what to change. \
Every answer is computed from the current file, or from the given text, and names its version. \
A key that is missing from an answer is empty: without `findings`, there are none. `omitted` counts what did not fit. \
Nothing on disk is ever changed. Lines count from 0, as in LSP; in a notebook they are lines of a `cell`, and cells \
count from 1."""

ARGUMENTS: dict[str, Schema] = {
    "file": {
        "type": "string",
        "description": "Path of a Python file or notebook, relative to the folder that the server runs in.",
    },
    "text": {"type": "string", "description": "The text of the file, if it is not saved yet; JSON for a notebook."},
    "model": {
        "type": "string",
        "description": "Name of a class in the file. Without it, the last class that has a graph.",
    },
    "line": {"type": "integer", "minimum": 0, "description": "A line of the file, from 0; in a notebook, of `cell`."},
    "cell": {"type": "integer", "minimum": 1, "description": "In a notebook: a cell, counted from 1."},
    "code": {"type": "string", "description": "Only fixes for this rule, such as FX101."},
    "device": {
        "type": "string",
        "description": "a100, h100, …: also estimate the least time on this device; cpu is measured.",
    },
    "engine": {"type": "string", "description": "onnxruntime, openvino, …; without it, the default engine."},
    "precision": {"type": "string", "enum": ["fp32", "fp16", "bf16"], "default": "fp32"},
    "start": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Skip this many entries, to continue an answer that has `omitted`.",
    },
    "max_bytes": {
        "type": "integer",
        "minimum": 500,
        "maximum": 1_000_000,
        "default": answers.MOST_BYTES,
        "description": "Maximum size of the answer, in bytes.",
    },
}


class Misasked(Exception):
    """The arguments of a question are invalid."""


@dataclass(frozen=True)
class Question:
    """A question. ``takes`` names its arguments, including those of all questions."""

    name: str
    description: str
    takes: tuple[str, ...]
    _answering: _Answering
    _own: Mapping[str, Schema]
    """Arguments that differ from `ARGUMENTS`."""

    def schema(self, **other: Schema | None) -> dict[str, Any]:
        """JSON Schema of the arguments; ``other`` replaces arguments by name, or removes them (None)."""
        known = {name: other.get(name, self._own.get(name, ARGUMENTS[name])) for name in self.takes}
        properties = {name: dict(each) for name, each in known.items() if each is not None}
        return {"type": "object", "properties": properties, "required": ["file"], "additionalProperties": False}

    async def answer(self, asking: Asking, given: Given) -> str:
        """JSON of at most ``max_bytes``.

        Raises:
            Misasked: an argument is missing, unknown or wrong.
            CannotCheck, NotTrusted, Failed: as `Asking` does.
        """
        arguments = self._checked(given)
        version, answer = await self._answering(asking, arguments)
        return answers.fitted(version.as_dict(), answer, arguments["max_bytes"])

    def _checked(self, given: Given) -> dict[str, Any]:
        given = {name: value for name, value in given.items() if value is not None}
        if unknown := given.keys() - set(self.takes):
            raise Misasked(f"{self.name} has no argument {', '.join(sorted(unknown))}; it has {', '.join(self.takes)}")
        if not given.get("file"):
            raise Misasked(f"{self.name} needs a file")
        for name, value in given.items():
            if problem := _problem(ARGUMENTS[name], value):
                raise Misasked(f"{name} must be {problem}, not {value!r:.100}")
        return {name: given.get(name, ARGUMENTS[name].get("default")) for name in self.takes}


QUESTIONS: dict[str, Question] = {}
NO_ANSWER = (CannotCheck, NotTrusted, Failed, Misasked)
"""The errors for a question without an answer; their text is for the caller."""


def question(name: str) -> Question:
    """Raises Misasked."""
    if name not in QUESTIONS:
        raise Misasked(f"There is no tool {name}; the tools: {', '.join(QUESTIONS)}")
    return QUESTIONS[name]


def _question(*takes: str, without_model: str = "") -> Callable[[_Answering], _Answering]:
    """Adds a question; its description is the function's docstring. ``without_model`` describes the default model, if
    not that of `ARGUMENTS`."""

    def add(function: _Answering) -> _Answering:
        name = function.__name__
        text = " ".join((inspect.getdoc(function) or "").split())
        model = {"type": "string", "description": f"Name of a class in the file. Without it, {without_model}."}
        own = {"model": model} if without_model else {}
        QUESTIONS[name] = Question(name, text, ("file", "text", *takes, "max_bytes"), function, own)
        return function

    return add


def _problem(schema: Schema, value: Any) -> str:
    """The requirement that the value violates."""
    if schema["type"] == "string":
        if not isinstance(value, str):
            return "a text"
        return "" if value in schema.get("enum", [value]) else f"one of {', '.join(schema['enum'])}"
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not isinstance(value, int) or isinstance(value, bool):
        return "a whole number"
    if least <= value <= most:
        return ""
    return f"at least {least}" if value < least else f"at most {most}"


@_question("model", "start", without_model="all")
async def diagnose(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """All problems that keep the models of a file from being captured as graphs, or make the graph silently wrong,
    with exact ranges. Use it after every change of a model's forward, and before proposing torch.fx, quantization
    or ONNX export for a model. Takes about a second; unlike running the code it finds all problems at once."""
    checked, version = await asking.check(given["file"], given["text"], read_only=True)
    return version, answers.diagnosis(checked, given["model"], given["start"])


@_question("line", "cell", "code")
async def fix(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """Changes of source that remove problems which `diagnose` reports. Without a line: one diff of all fixes that
    were proven by tracing again and comparing results with eager. With a line: its fixes as edits, `proven` or not;
    a notebook has only these. Use it before writing a fix by hand."""
    file, text, code = given["file"], given["text"], given["code"]
    if code and rules.unknown([code]):
        raise Misasked(rules.said_unknown([code]))
    if given["line"] is None and given["cell"] is None:
        if is_notebook(file):
            raise Misasked(f"{file} is a notebook, for which there is no diff: ask for a `line` of a `cell`")
        checked, version = await asking.check(file, text, {"select": (code,)} if code else {}, fix="diff")
        return version, answers.fixed(checked, given["max_bytes"] - 600)
    checked, version = await asking.check(file, text, verify=True, every=True)
    line = answers.line_in(checked, given["cell"], given["line"])
    return version, answers.fixes(checked, line, code)


@_question("model", "start")
async def capture(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """What torch.fx, torch.export and torch.compile each do with a model: captured, graph breaks, pinned sizes or
    failure, with the exact expression of each and the captures that it stops. Use it before proposing
    torch.export, torch.compile(fullgraph=True), ONNX export or dynamic shapes. Takes seconds, since torch itself
    runs."""
    checked, version = await asking.check(given["file"], given["text"], {"captures": USUAL_CAPTURES})
    return version, answers.captures(checked, given["model"], given["start"])


@_question("model", "start")
async def graph(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """The torch.fx graph of a model: a line for each node with target, arguments, shape and source line. Use it to
    see what a model computes, or to write a pass or a pattern for it."""
    checked, version = await asking.check(given["file"], given["text"], _OF_THE_GRAPH)
    return version, answers.graph(checked, given["model"], given["start"])


@_question("model", "line", "cell", "start")
async def shapes(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """The shape and dtype of every intermediate value of a model's forward, by source line. Use it instead of
    adding print(x.shape), and to find where sizes do not fit."""
    checked, version = await asking.check(given["file"], given["text"], _OF_THE_GRAPH)
    line = answers.line_in(checked, given["cell"], given["line"])
    return version, answers.shapes(checked, given["model"], line, given["start"])


@_question("model", "device", "start", without_model="the last model")
async def cost(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """Operations (FLOPs), bytes, parameters and peak memory of a model, and its most expensive nodes. Use it to
    compare two versions of a model, or to find what to make faster."""
    options = {"device": given["device"]}
    result, version = await asking.run("estimate", given["file"], given["text"], given["model"], options)
    return version, answers.cost(*result, given["start"])


@_question("model", "engine", "precision", "start", without_model="the last model")
async def lower(asking: Asking, given: Given) -> tuple[Version, answers.Answer]:
    """Lowers a model to an inference engine and says which nodes it takes, which stay in PyTorch and why, and how
    far the results are from eager. Takes seconds to minutes. Use it before promising a deployment."""
    options = {"engine": given["engine"], "precision": given["precision"]}
    result, version = await asking.run("lower", given["file"], given["text"], given["model"], options)
    return version, answers.lowered(*result, given["start"])
