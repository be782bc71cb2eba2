"""The entry: what torch.export and torch.compile do with one model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from fxlib.captures import torch_side
from fxlib.captures.compiling import judge_compile
from fxlib.captures.exporting import judge_export, judge_strict
from fxlib.captures.isolation import copied, restored
from fxlib.captures.merging import merged
from fxlib.captures.pins import analyse, judge_shapes
from fxlib.captures.places import owned
from fxlib.captures.replacing import Functions
from fxlib.captures.sizes import Inputs
from fxlib.captures.specification import Specification, propose
from fxlib.captures.verdict import CAPTURES, Judgement, Verdict
from fxlib.diagnosis.engine.inputs import normalise
from fxlib.diagnosis.report import Report

__all__ = ["judge", "specify"]


def judge(
    module: torch.nn.Module,
    example_inputs: Any,
    *,
    more: Iterable[Any] = (),
    captures: Iterable[str] = ("export", "compile"),
    report: Report | None = None,
    earlier: Judgement | None = None,
) -> Judgement:
    """Run torch.export and torch.compile on ``module``, and report where they fail.

    The module runs several times; its state is restored afterwards.

    Args:
        module: the model, in the mode (train or eval) that it is captured in.
        example_inputs: the arguments of forward, as `fxlib.diagnose` takes them.
        more: further example inputs, of other sizes or values. Each recompilation that they cause is a finding.
        captures: which ones to run: ``"export"``, ``"compile"``, ``"strict"`` (``torch.export.export(strict=True)``,
            as slow as torch.compile) and ``"shapes"`` (exported with sizes that vary).
        report: the result of `fxlib.diagnose` for the same model. Findings at the same expressions are merged.
        earlier: an earlier result for the same model, whose verdicts are kept.

    Returns:
        A `Judgement`. If this version of torch cannot run a capture, or the model raises in eager too, the outcome is
        ``"unknown"``.

    Raises:
        ValueError: there is no such capture.
    """
    wanted = list(captures)
    if unknown := [name for name in wanted if name not in CAPTURES]:
        raise ValueError(f"captures: unknown {', '.join(unknown)}; choose from {', '.join(CAPTURES)}")
    judgement = Judgement(dict(earlier.verdicts) if earlier is not None else {})
    args, kwargs = normalise(example_inputs) or ((), {})
    of_fx = report.findings if report is not None else []
    given = [normalise(each) or ((), {}) for each in more]
    reason, functions = torch_side.missing(), Functions()
    with owned(module), restored(module):
        for name in wanted:
            if reason is not None:
                verdict = Verdict(name, "unknown", reason)
            elif name == "export":
                verdict = judge_export(module, args, kwargs, functions, of_fx)
            elif name == "strict":
                verdict = judge_strict(module, args, kwargs)
            elif name == "shapes":
                verdict = judge_shapes(module, args, kwargs, judgement.verdicts.get("export"))
            else:
                verdict = judge_compile(module, args, kwargs, given, functions)
            calls = [(args, kwargs), *(given if name == "compile" else ())] if verdict.outcome == "fails" else []
            for number, call in enumerate(calls):
                if (raised := _eager_error(module, *call)) is not None:
                    which = f"number {number} of the further inputs" if number else "these inputs"
                    verdict = Verdict(name, "unknown", f"The model itself raises on {which}: {raised}")
                    break
            judgement.verdicts[name] = verdict
    found = [finding for verdict in judgement.verdicts.values() for finding in verdict.findings]
    judgement.findings = merged(judgement.verdicts, found, of_fx)
    return judgement


def _eager_error(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> str | None:
    try:
        with restored(module), torch_side.quiet():
            module(*copied(args), **copied(kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return None


def specify(module: torch.nn.Module, example_inputs: Any, *, more: Iterable[Any] = ()) -> Specification:
    """``dynamic_shapes`` for the export of a model, proven by running the program at three sizes.

    Args:
        module, example_inputs: as for `judge`.
        more: further example inputs. If given, only dimensions whose size differs in them may vary; otherwise all
            dimensions of which both the program and the model accept other sizes.

    Raises:
        TypeError: the inputs do not fit forward.
        RuntimeError: this torch has no torch.export.
    """
    if (reason := torch_side.missing()) is not None:
        raise RuntimeError(reason)
    args, kwargs = normalise(example_inputs) or ((), {})
    with owned(module), restored(module):
        known = Inputs(module, args, kwargs).dimensions()
        varying = set()
        for each in more:
            other = Inputs(module, *(normalise(each) or ((), {}))).dimensions()
            varying |= {dimension for dimension, size in known.items() if other.get(dimension, size) != size}
        return propose(module, analyse(module, args, kwargs), varying)
