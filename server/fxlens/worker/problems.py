"""Findings for unexpected exceptions of user code: the responsible class and line, and what to do."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from typing import Any

from fxlens import record
from fxlens.record import Finding, Related, Severity, Span
from fxlens.sources import parsing, positions
from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import key
from fxlens.sources.targets import Target

from . import alone, construct, example_inputs, network, outside, placeholders, script_arguments, tracebacks, user_file
from .errors import brief, text_of
from .job import Job
from .obstacles import is_inside
from .scope import class_named

_MOST_NAMES = 4
_DEVICE = re.compile(r"\b(is_cuda|is_cpu|device)\b")
_NAME = re.compile(r"NameError: name '(?P<name>\w+)' is not defined")


def name_span(job: Job, target: Target) -> Span:
    """The name in the class statement."""
    return record.span(job.path, target.line, target.column, target.end_line, target.end_column)


def raised(job: Job, target: Target, error: BaseException, doing: str) -> Finding:
    """The finding for a class whose code raised during ``doing``."""
    span = tracebacks.of_error(error, job.path) or name_span(job, target)
    code, text = "FX199", f"{target.name} could not be traced: {doing} raised {brief(error)}"
    if isinstance(error, SystemExit):
        code, text = "FX306", f"{target.name} ended the process: {doing} called sys.exit({error.code!r})"
    elif isinstance(error, RecursionError):
        code, text = "FX310", f"{target.name} recurses without end while {doing}: {brief(error)}"
        from fxlib.ir.span import is_hidden

        if not any(os.path.isfile(file) and not is_hidden(file) for file in tracebacks.files(error.__traceback__)):
            # torch walks through the layers there.
            text = f"The layers of {target.name} are nested deeper than Python's recursion limit: {brief(error)}"
    elif isinstance(error, MemoryError):
        code, text = "FX307", f"{target.name} ran out of memory while {doing}"
    return record.finding(code, "error", text, span, target=target.name)


def not_constructed(job: Job, namespace: Any, target: Target, error: construct.CannotConstruct) -> Finding:
    if error.source is not None and error.source.line:
        span = positions.span_of_line(job.text, job.path, error.source.line)
        text = f"{target.name} cannot be constructed: {error}"
        return record.finding("FX302", "warning", text, span, target=target.name)
    if str(error) == construct.NO_HASH:
        text = f"{target.name} was not traced: {error}"
        return record.finding("FX302", "warning", text, name_span(job, target), target=target.name)
    arguments = ", ".join(construct.required_arguments(class_named(namespace, target.name))) or "…"
    text = (
        f"{target.name} was not traced: {error}. Write above the class how to construct it: "
        f"# fxlens: {target.name}({arguments}) <- torch.randn(…)"
    )
    data = {"construct": error.tried or f"{target.name}({arguments})"}
    return record.finding("FX302", "hint", text, name_span(job, target), target=target.name, data=data)


def not_judged(job: Job, target: Target, reason: str) -> record.Target:
    """A class that no process is started for any more."""
    span, text = name_span(job, target), f"{target.name} was not judged: {reason}"
    found = record.finding("FX304", "error", text, span, target=target.name)
    return {**record.target(target.name, span, "failed", text), "findings": [found]}


def inputs_do_not_fit(job: Job, target: Target, error: example_inputs.CannotUseInputs) -> Finding:
    line = error.source.line
    span = positions.span_of_line(job.text, job.path, line) if line else name_span(job, target)
    text = f"The example inputs of {target.name} do not fit, so it was traced without them: {error}"
    return record.finding("FX303", "warning", text, span, target=target.name)


def unusable_tracer(job: Job, error: BaseException) -> Finding:
    """The tracer of the project's configuration cannot be imported or constructed."""
    assert job.tracer is not None
    text = f"The project's tracer `{job.tracer.name}` cannot be used: {brief(error)}. torch.fx's own is used instead"
    return record.finding("FX312", "error", text, related=_raised_by(job, error))


def not_imported(job: Job, tree: ast.Module, error: BaseException, partly: bool = False) -> Finding:
    """The file raised during execution; ``partly`` if its classes exist nevertheless."""
    if partly:
        span, inside = tracebacks.of_error(error, job.path, outermost=True), tracebacks.of_error(error, job.path)
        called = [record.related("Raised here", inside)] if inside != span else []
        missing = placeholders.MARK in text_of(error)
        fails = "uses a package that cannot be imported" if missing else f"raises {brief(error)}"
        text = f"This statement {fails}. The classes of the file were traced without it"
        code = "FX306" if isinstance(error, SystemExit) else "FX301"
        unnamed = isinstance(error, NameError)
        if is_notebook(job.path) and unnamed:
            text += ". In a notebook, only imports, definitions and plain values are run, in cell order"
        # A script that exits, or lacks data, a package, a device, network or arguments, may work elsewhere.
        elsewhere = missing or isinstance(error, (SystemExit, OSError)) or alone.is_about(error)
        elsewhere = elsewhere or bool(network.refused or script_arguments.assumed or outside.notes)
        if network.refused:
            text += f". FX Lens runs code without network, so {network.refused[-1]} cannot be reached"
        elif outside.notes:
            text += f". {outside.notes[-1].text}"
        grade: Severity = "error" if unnamed and not is_notebook(job.path) else "info" if elsewhere else "warning"
        return record.finding(code, grade, text, span, related=[*called, *_raised_by(job, error)])
    span = tracebacks.of_error(error, job.path)
    if span and isinstance(error, (ImportError, SyntaxError)):
        span = tracebacks.of_import(tree, job.path, span["line"]) or span
    if isinstance(error, SystemExit):
        text = f"Importing the file ends the process: sys.exit({error.code!r})"
        return record.finding("FX306", "error", text, span)
    if isinstance(error, NotImplementedError) and "wrap must be called at the top level" in text_of(error):
        says = record.related(f"torch.fx says: {brief(error)}", span, "torch")
        text = "torch.fx.wrap must be called at the top level of a module, so the file cannot be imported or traced"
        return record.finding("FX185", "error", text, span, related=[says])
    if isinstance(error, RecursionError):
        text = f"Importing the file recurses without end: {brief(error)}"
        return record.finding("FX310", "error", text, span)
    if isinstance(error, MemoryError):
        return record.finding("FX307", "error", "Importing the file ran out of memory", span)
    related = []
    if isinstance(error, SyntaxError) and error.filename:
        at = record.span(error.filename, error.lineno or 1)
        related.append(record.related(f"SyntaxError: {error.msg}", at))
    message = f"The file cannot be imported, so nothing in it was traced: {brief(error)}"
    if raised := _raised_by(job, error):
        related += raised
        if span is None:
            message += f". {raised[0]['message']}, which the package of this file imports"
    return record.finding("FX301", "error", message, span, related=related)


def _raised_by(job: Job, error: BaseException) -> list[Related]:
    """The line of another file that raised, if it is not this file."""
    other = tracebacks.elsewhere(error.__traceback__, job.path)
    if other is None:
        return []
    file, line = other
    return [record.related(f"Raised by line {line} of {os.path.basename(file)}", record.span(file, line))]


def replaced(job: Job, tree: ast.Module, what: user_file.Replaced) -> Finding:
    """The finding for imports that were replaced so that classes could be judged."""
    related: list[Related] = []
    parts, span = [], None
    for name, (file, line) in what.modules.items():
        if key(file) == key(job.path):
            span = span or tracebacks.of_import(tree, job.path, line) or record.span(job.path, line)
        elif len(related) < _MOST_NAMES:
            text = f"{name} is imported by line {line} of {os.path.basename(file)}"
            related.append(record.related(text, record.span(file, line)))
    names = [*what.modules, *what.names]
    if names:
        parts.append(f"Placeholders replace {_listed(names)}, which cannot be imported.")
    if what.former:
        parts.append(f"Only earlier versions have {_listed([*what.former])}; FX Lens provides the earlier definition.")
        own = [line for file, line in what.former.values() if key(file) == key(job.path)]
        span = span or (record.span(job.path, own[0]) if own else None)
    for name, reason in what.packages.items():
        parts.append(f"The `__init__` of the package {name} was left out, since it raises {reason}.")
    for name, (file, taken) in what.hidden.items():
        text = f"{name} was taken from {_folder(job, taken)}, since {_folder(job, file)} does not define it"
        related.append(record.related(text, record.span(file, 1)))
        parts.append(f"{text}.")
    severity: record.Severity = "info"
    for (file, line), left in what.statements.items():
        place = f"line {line} of {os.path.basename(file)}"
        text = f"The {left.what} at {place} was left out, since it raises {left.reason}"
        related.append(record.related(text, record.span(file, line)))
        parts.insert(0, f"{text}.")
        if not left.elsewhere:
            severity, span = "warning", tracebacks.of_import(tree, job.path, left.line) or span
    text = " ".join(parts[:3])
    return record.finding("FX311", severity, text, span or record.span(job.path, 1), related=related)


def from_outside(job: Job, found: list[Target]) -> list[Finding]:
    """What this file wanted to fetch or to start, and what its classes depend on that other files wanted to fetch."""
    named = {each.name: each for each in found}
    findings: dict[tuple[str, int, str | None], Finding] = {}
    for note in outside.notes:
        at = record.span(note.file, note.line)
        span, related, target = positions.span_of_line(job.text, job.path, note.line), [], note.target
        if key(note.file) != key(job.path):
            if target not in named:
                continue
            span, related = name_span(job, named[target]), [record.related("Wanted here", at)]
        finding = record.finding("FX313", "info", note.text, span, target=target, related=related)
        findings[note.file, note.line, target if related else None] = finding
    return list(findings.values())


def _listed(names: list[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")


def _folder(job: Job, path: str) -> str:
    """The path below the folder of the workspace."""
    inside = job.folder is not None and is_inside(path, job.folder)
    return os.path.relpath(path, job.folder) if inside else path


def is_import_that_failed(finding: Finding, read: Callable[[str], str | None]) -> bool:
    """Whether the missing name is one that its file imports conditionally or in a ``try``."""
    missing = _NAME.search(finding["message"])
    span = finding["span"]
    text = read(span["file"]) if missing and span else None
    if not missing or text is None:
        return False
    try:
        tree = ast.parse(text)
    except parsing.ERRORS:
        return False
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return any((alias.asname or alias.name) == missing["name"] for node in imports for alias in node.names)


def asks_for_device(finding: Finding, read: Callable[[str], str | None]) -> bool:
    """Whether the code raises since its tensors are not on a device: `if not x.is_cuda: raise NotImplementedError`."""
    span = finding["span"]
    text = read(span["file"]) if span else None
    try:
        tree = ast.parse(text if span and text else "")
    except parsing.ERRORS:
        return False
    for node in ast.walk(tree):
        branches = (
            [*node.body, *node.orelse] if isinstance(node, ast.If) and _DEVICE.search(ast.unparse(node.test)) else []
        )
        if any(isinstance(each, ast.Raise) and span and each.lineno == span["line"] for each in branches):
            return True
    return False


def is_of_file(error: SyntaxError, path: str) -> bool:
    """Whether a syntax error is in this file; one without a file name is in other text, since this file was parsed."""
    return error.filename is not None and key(error.filename) == key(path)
