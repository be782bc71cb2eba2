"""Recompilations of torch.compile: the guard that failed on a later call, in terms of the user's code, and a remedy."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from fxlib.captures.interface import forwards
from fxlib.captures.places import Frame, expression_at, file_tree, frames_of, users_path
from fxlib.captures.torch_side import Logged
from fxlib.captures.verdict import holds_for
from fxlib.diagnosis.engine.trees import span_of
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["Recompile", "findings_of", "recompiles"]

_HEAD = re.compile(r"Recompiling function (?P<function>\S+) in (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"^    - \d+/\d+: (?P<guard>.*?)\s*$")
_SIZE = re.compile(
    r"tensor '(?P<source>.+)' size mismatch at index (?P<dim>\d+)\. expected (?P<was>\d+), actual (?P<now>\d+)"
)
_TENSOR = re.compile(
    r"tensor '(?P<source>.+?)' (?P<what>.+ mismatch)\. expected (?P<was>[^,]+)(?:, actual (?P<now>.+))?"
)
_SHAPE = re.compile(r"(\w+)\.size\(\)\[(\d+)\]")
_MODULES = re.compile(r"\._modules\['([^']+)'\]")
_GLOBAL = re.compile(r"G\['(\w+)'\]")
_HELP = re.compile(r"\s+# .*$")


@dataclass(frozen=True)
class Recompile:
    """One guard that failed: torch's text, our text, its subject (``x``, ``self.n``), the recompiled function, and the
    place that made the guard, if torch knows it."""

    guard: str
    words: str
    subject: str
    function: Frame
    path: tuple[Span, ...] = ()
    size: tuple[int, int, int] | None = None
    times: int = 1

    @property
    def kind(self) -> tuple[str, str]:
        """A key that is equal for all values of one changing subject."""
        if self.size is not None:
            return self.subject, f"size {self.size[0]}"
        if "___stack" in self.words:
            return "___stack", "value"
        about = self.words.partition(": ")[2]
        return self.subject, about or ("type" if self.words.startswith("type(") else "value")


def recompiles(log: Iterable[Logged]) -> list[Recompile]:
    """The guards that failed, one of each kind, with the values of its first failure.

    torch lists the guards of all graphs that did not fit; from each record, one that is new is used.
    """
    found: dict[tuple[str, str], Recompile] = {}
    for record in log:
        head = _HEAD.search(record.text) if record.artifact == "recompiles" else None
        if head is None:
            continue
        function = Frame(head["file"], int(head["line"]), name=head["function"])
        reasons = _reasons(record.text, function)
        new = next((each for each in reasons if each.kind not in found), None)
        if new is not None:
            found[new.kind] = new
        elif reasons:
            found[reasons[0].kind] = replace(found[reasons[0].kind], times=found[reasons[0].kind].times + 1)
    return list(found.values())


def _reasons(text: str, function: Frame) -> list[Recompile]:
    found = []
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _REASON.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        guard = _REASON.match(lines[start])["guard"]  # type: ignore[index]
        stack = "\n".join(line.removeprefix("    - ") for line in lines[start + 1 : end])
        path = users_path(frames_of(stack))
        bare = _HELP.sub("", guard)
        size = _SIZE.match(bare)
        if size is not None:
            words = f"{_words(size['source'])}.shape[{size['dim']}] == {size['was']}"
            numbers = (int(size["dim"]), int(size["was"]), int(size["now"]))
            found.append(Recompile(guard, words, _words(size["source"]), function, path, numbers))
            continue
        tensor = _TENSOR.match(bare)
        words = f"{_words(tensor['source'])}: {tensor['what']}" if tensor is not None else _words(bare)
        subject = _words(tensor["source"]) if tensor is not None else _subject(words)
        found.append(Recompile(guard, words, subject, function, path))
    return found


def _words(guard: str) -> str:
    """Rewrite torch's names in terms of the user's code."""
    text = _SHAPE.sub(r"\1.shape[\2]", guard)
    text = _GLOBAL.sub(r"\1", _MODULES.sub(r".\1", text))
    text = re.sub(r"___check_type_id\((.+?), \d+\), type=<class '(.+?)'>", r"type(\1) is \2", text)
    text = re.sub(r"___check_obj_id\((.+?), \d+\)(, type=.*)?", r"\1 is the same object", text)
    text = re.sub(r"not ___dict_contains\((.+?), (.+)\)", r"\1 not in \2", text)
    text = re.sub(r"___dict_contains\((.+?), (.+)\)", r"\1 in \2", text)
    return re.sub(r"L\['(\w+)'\]", r"\1", text).strip()


def _subject(words: str) -> str:
    words = words.rpartition(" in ")[2]
    found = re.match(r"(?:len\(|type\(|not )?([A-Za-z_][\w.]*(?:\[[^]]+\])*)", words)
    return found[1] if found else words


def findings_of(module: torch.nn.Module, log: Iterable[Logged]) -> list[Finding]:
    """One finding for each subject that changed between the calls."""
    found = []
    for each in recompiles(log):
        code, help = _rule(module, each)
        message = f"{_sentence(each)} {help}".strip()
        path = (*each.path[:-1], _narrowed(each.path[-1], each.subject)) if each.path else _declared(module, each)
        related = (Related(_HELP.sub("", each.guard), None, "torch"),)
        data = {"captures": holds_for("compile", code), "guard": each.words, "subject": each.subject}
        severity = RULES[code].severity if each.times > 1 or code != "FX621" else "info"
        found.append(Finding(code, severity, message, path[-1] if path else None, related, path, data=data))
    return found


def _sentence(each: Recompile) -> str:
    if each.size is not None:
        dim, was, now = each.size
        return (
            f"`{each.subject}.shape[{dim}]` is {now} where the graph was compiled for {was}, so it is compiled again."
        )
    if "___stack" in each.words:
        return "A Python value from before the graph break changes on a later call, so what follows is compiled again."
    later = "later calls" if each.times > 1 else "a later call"
    return f"The graph assumes `{each.words}`, which does not hold on {later}, so it is compiled again."


def _rule(module: torch.nn.Module, each: Recompile) -> tuple[str, str]:
    """The rule of a failed guard, and a remedy."""
    parameters = _parameters(module)
    root = each.subject.split(".")[0].split("[")[0]
    if each.size is not None or ".shape[" in each.words:
        dim = each.size[0] if each.size is not None else 0
        return "FX620", f"torch._dynamo.mark_dynamic({root}, {dim}) or dynamic=True compiles once for all sizes."
    if root == "self":
        return "FX621", "Keep it in a buffer." if each.times > 1 else "Set it in __init__."
    if root in parameters and ":" not in each.words:
        return "FX622", "Pass a number that changes as a tensor."
    return "FX623", ""


def _narrowed(span: Span, subject: str) -> Span:
    """The expression that a guard is about, on the line that torch names."""
    for node in ast.walk(file_tree(span.file) or ast.Module([], [])):
        named = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and node.lineno == span.line
        if named and ast.unparse(node) == subject:
            return span_of(node, span.file)
    return span


def _parameters(module: torch.nn.Module) -> list[str]:
    try:
        return list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        return []


def _declared(module: torch.nn.Module, each: Recompile) -> tuple[Span, ...]:
    """The declaration of the parameter that a guard is about, in the recompiled function."""
    for _, code, tree in forwards(module):
        if (code.co_filename, code.co_firstlineno) != (each.function.file, each.function.line):
            continue
        arguments = tree.args
        for declared in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if declared.arg == each.subject.split("[")[0]:
                return (span_of(declared, code.co_filename),)
    return (expression_at(each.function),)
