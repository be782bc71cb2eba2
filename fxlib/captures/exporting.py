"""torch.export: all expressions that prevent the export of a model, in one run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import torch

from fxlib.captures import interface, torch_side
from fxlib.captures.break_log import described
from fxlib.captures.break_rules import first_line, stopped_at
from fxlib.captures.export_rules import Failure, finding_of
from fxlib.captures.isolation import copied, restored
from fxlib.captures.places import frames_of, is_users, users_path
from fxlib.captures.replacing import Functions, Replacements
from fxlib.captures.silent import silent
from fxlib.captures.verdict import Part, Verdict
from fxlib.diagnosis.report import Finding

__all__ = ["judge_export", "judge_strict"]

_MOST = 25  # failures reported for one model


def judge_export(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict[str, Any],
    functions: Functions | None = None,
    of_fx: Iterable[Finding] = (),
) -> Verdict:
    """What ``torch.export.export(module, args, kwargs, strict=False)`` does. ``functions``: see `Replacements`;
    ``of_fx``: see `silent`.

    A failure is at the expression that ran when torch raised. The next one is found by exporting again, with that
    expression replaced by its value in eager.
    """
    start = time.perf_counter()
    verdict = Verdict("export", "captured")

    def eager() -> None:
        with restored(module), torch_side.quiet():
            module(*copied(args), **copied(kwargs))

    replacements = verdict.replaced = Replacements(eager, functions)
    for _ in range(_MOST):
        try:
            with restored(module), replacements.applied():
                program = torch_side.exported(module, *copied((args, kwargs)))
        except Exception as error:
            failure = _failure(error, module, args, kwargs)
            if not verdict.findings:
                verdict.outcome, verdict.reason = "fails", failure.text
            verdict.findings.append(finding_of(failure))
            if not failure.path or not replacements.add([failure.path[-1]]):
                break
            continue
        verdict.complete = True
        if not verdict.findings:
            verdict.parts = [_part(program)]
            verdict.findings = silent(module, args, kwargs, program, of_fx)
        break
    verdict.seconds = time.perf_counter() - start
    return verdict


def judge_strict(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Verdict:
    """What ``torch.export.export(module, args, kwargs, strict=True)`` does: Dynamo analyses forward before the export.
    The verdict has no findings: its reason names the line, and the findings of torch.compile have the details."""
    start = time.perf_counter()
    verdict = Verdict("strict", "captured", complete=True)
    try:
        with restored(module):
            given, named = copied((args, kwargs))
            torch_side.exported(module, given, named, strict=True)
    except Exception as error:
        path = stopped_at(error)
        where = f"line {path[-1].line}: " if path else ""
        said = described(str(error))["title"] if torch_side.is_unsupported(error) else first_line(error)
        verdict.outcome, verdict.reason, verdict.complete = "fails", f"{where}{said}", False
    verdict.seconds = time.perf_counter() - start
    return verdict


def _failure(error: Exception, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Failure:
    frames = frames_of(error.__traceback__)
    path = users_path(frames)
    # torch's own frames end every stack; only a package's frames show that the problem lies there.
    inside = next((frame for frame in reversed(frames) if not _torchs(frame.file)), None)
    inside = inside if inside is not None and not is_users(inside.file) else None
    if not path:
        # No user code was running: torch checked the inputs, the results, or the state left in the module.
        span = interface.place(error, module, args, kwargs)
        path = (span,) if span is not None else ()
    return Failure(error, path, inside, interface.calls_scripted(error.__traceback__))


def _torchs(file: str) -> bool:
    return file.startswith((torch.__path__[0], "<"))


def _part(program: Any) -> Part:
    lines: dict[str, set[int]] = {}
    operators = 0
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        operators += 1
        for frame in frames_of(node.meta.get("stack_trace") or ""):
            if is_users(frame.file):
                lines.setdefault(frame.file, set()).add(frame.line)
    code = program.graph_module.code.strip() + "\n"
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return Part(operators, {file: sorted(found) for file, found in lines.items()}, code, None, program.graph, weights)
