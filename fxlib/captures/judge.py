"""The entry: what torch.export and torch.compile do with one model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from fxlib.captures import torch_side
from fxlib.captures.compiling import judge_compile
from fxlib.captures.exporting import judge_export
from fxlib.captures.isolation import copied, restored
from fxlib.captures.pins import judge_shapes
from fxlib.captures.places import owned
from fxlib.captures.verdict import CAPTURES, Judgement, Verdict
from fxlib.diagnosis.engine.inputs import normalise
from fxlib.diagnosis.report import Finding

__all__ = ["judge"]


def judge(
    module: torch.nn.Module, example_inputs: Any, *, more: Iterable[Any] = (), captures: Iterable[str] = CAPTURES
) -> Judgement:
    """What torch.export and torch.compile do with ``module``, and where they stop.

    The module runs several times, and is afterwards as it was.

    Args:
        module: the model, in the mode (train or eval) that it is captured in.
        example_inputs: the arguments of forward, as `fxlib.diagnose` takes them.
        more: further example inputs, of other sizes or values: what makes torch.compile compile again is a finding.
        captures: which to ask, of ``"export"``, ``"compile"`` and ``"shapes"``: exported with sizes that vary.

    Returns:
        A `Judgement`. A capture that this version of torch cannot be asked about, or whose model raises in eager too,
        has the outcome ``"unknown"``.

    Raises:
        ValueError: there is no such capture.
    """
    wanted = list(captures)
    if unknown := [name for name in wanted if name not in CAPTURES]:
        raise ValueError(f"captures: {', '.join(unknown)} cannot be judged here; take some of {', '.join(CAPTURES)}")
    judgement = Judgement()
    args, kwargs = normalise(example_inputs) or ((), {})
    reason = torch_side.missing()
    with owned(module):
        for name in wanted:
            if reason is not None:
                verdict = Verdict(name, "unknown", reason)
            elif name == "export":
                verdict = judge_export(module, args, kwargs)
            elif name == "shapes":
                verdict = judge_shapes(module, args, kwargs)
            else:
                verdict = judge_compile(module, args, kwargs, [normalise(each) or ((), {}) for each in more])
            if verdict.outcome == "fails" and (raised := _eager_error(module, args, kwargs)) is not None:
                verdict = Verdict(name, "unknown", f"The model itself raises on these inputs: {raised}")
            judgement.verdicts[name] = verdict
    judgement.findings = _once(judgement.verdicts.values())
    return judgement


def _eager_error(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> str | None:
    try:
        with restored(module), torch_side.quiet():
            module(*copied(args), **copied(kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return None


def _once(verdicts: Iterable[Verdict]) -> list[Finding]:
    """The findings of all captures, in the order of the source."""
    found = [finding for verdict in verdicts for finding in verdict.findings]
    return sorted(found, key=lambda finding: (finding.span is None, *(finding.span or ()), finding.code))
