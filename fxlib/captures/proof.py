"""Proves fixes for one capture: the edited model is captured again and compared with eager, also by the other
captures."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxlib.captures import torch_side
from fxlib.captures.isolation import copied
from fxlib.captures.judge import judge
from fxlib.captures.sizes import Inputs
from fxlib.captures.verdict import Judgement
from fxlib.diagnosis.fixes import apply_fix, propose
from fxlib.diagnosis.fixes.compare import Outcome, agree, run
from fxlib.diagnosis.fixes.fix import Fix
from fxlib.diagnosis.fixes.joined import joined
from fxlib.diagnosis.fixes.recipes.compiling import SETTINGS
from fxlib.diagnosis.fixes.verdict import Verdict
from fxlib.diagnosis.fixes.verify import Checker
from fxlib.diagnosis.report import Finding
from fxlib.ir.modules import copy_of

__all__ = ["CaptureChecker"]

_NAMES = {"fx": "torch.fx", "export": "torch.export", "compile": "torch.compile"}
_STEPS, _TRIES = 2, 12  # further fixes for problems that a fix reveals, and the number of tries
# Accepted differences between calls, as in the note of a fix: the error before the fix, and the one after it.
_ANNOUNCED = {
    "check-condition": (None, "RuntimeError"),
    "torch-math": ("ValueError", None),
    "unchecked-distribution": ("ValueError", None),
    "func-grad": ("RuntimeError", None),
}


@dataclass
class _Report:
    """The result of a capture for one text."""

    judgement: Judgement
    findings: list[Finding]
    traces: bool
    graph_module: Any = None


class CaptureChecker(Checker):
    """Verifies fixes for ``"export"``, ``"compile"`` or ``"shapes"``; otherwise as `Checker`.

    A fix is proven if its finding is gone from that capture, that capture has no new finding, and both the edited model
    and its captured program compute what the original did (values, gradients, another batch). Its note describes the
    effect on the other captures.
    """

    def __init__(self, capture: str, path: str, construct: str, inputs: str | None, **options: Any) -> None:
        super().__init__(path, construct, inputs, **options)
        self.capture = capture
        self._numbers = True

    def settle(self, finding: Any, recipes: Any = None, every: bool = True) -> list[Fix]:
        """As `Checker.settle`; ``finding`` may affect several captures.

        If no fix is proven, one that reveals another problem is tried together with the fixes for that."""
        own = self.own(finding)
        offered = super().settle(own, recipes, every)
        if any(fix.proven and fix.kind != "around" for fix in offered):
            return offered
        whole = self._completed(own, recipes)
        return offered if whole is None else [whole, *(replace(fix, preferred=False) for fix in offered)]

    def _completed(self, finding: Any, recipes: Any) -> Fix | None:
        """A fix combined with further ones for problems that it reveals, proven as a whole."""
        started = [fix for fix in propose(finding, self.read, recipes, project=True) if fix.kind != "around"]
        tries = 0
        for _ in range(_STEPS):
            further = []
            for whole in (each for fix in started for each in self._continued(fix)):
                tries += 1
                if self.left < 0 or tries > _TRIES:
                    return None
                start = time.thread_time()
                settled = whole.settled(self.verify(whole, finding))
                self.left -= time.thread_time() - start
                if settled is not None and settled.proven:
                    return settled
                further.append(whole)
            started = further
        return None

    def _continued(self, fix: Fix) -> Iterator[Fix]:
        """A fix combined with each fix for the problem that it reveals."""
        brought_up = self.brought_up(fix)
        texts = apply_fix(fix, self.read) if brought_up else {}
        for new in brought_up:
            for each in propose(new, lambda path: texts[path] if path in texts else self.read(path), project=True):
                if each.kind != "around" and each.id not in fix.id.split("+"):
                    yield joined(fix, each, self.read)

    def verify(self, fix: Fix, finding: Any, *more: Any) -> Verdict:
        """As `Checker.verify`."""
        return super().verify(fix, *map(self.own, (finding, *more)))

    def own(self, finding: Any) -> Any:
        """The finding in the form of this capture."""
        captures = getattr(finding, "captures", None) or finding.data.get("captures", {})
        code = captures.get("export" if self.capture == "shapes" else self.capture)
        if code is None or code == finding.code:
            return finding
        changed = copy.copy(finding)
        object.__setattr__(changed, "code", code)
        return changed

    def _report(self, model: Any, given: Any, concrete: dict[str, Any], leaves: tuple[str, ...]) -> Any:
        args, kwargs = given if given is not None else ((), {})
        asked = dict.fromkeys([self.capture, "export", "compile"])
        inputs = dict(Inputs(model, args, kwargs).arguments) if kwargs else args
        judgement = judge(model, inputs, captures=asked)
        return _Report(judgement, judgement.verdicts[self.capture].findings, _traces(model))

    # ---- judgements

    def _compare_findings(self, verdict: Verdict, fix: Fix, wanted: Sequence[Any], found: list[Any]) -> None:
        super()._compare_findings(verdict, fix, wanted, found)
        # A failure without a place has no line to compare.
        known = {each.code for each in self.before.report.findings if each.span is None}
        if any(each.span is None and each.severity == "error" and each.code not in known for each in found):
            verdict.gone = False

    def _compare_numbers(self, verdict: Verdict, before: Any, after: Any) -> None:
        pairs = enumerate(zip(before.outcomes, after.outcomes, strict=False))
        if self._announces:
            # On the example everything must be equal.
            kept = [pair for number, pair in pairs if number == 0 or not self._announced(*pair)]
            before = replace(before, outcomes=[old for old, _ in kept])
            after = replace(after, outcomes=[new for _, new in kept])
        super()._compare_numbers(verdict, before, after)
        other = self._at_another_batch(before, after) if verdict.same_eager else None
        if other is not None:
            verdict.same_eager = False
            verdict.note = f"eager gives different results for another batch: {other}"

    def _announced(self, old: Outcome, new: Outcome) -> bool:
        """Whether two calls differ in the way that the note of the fix states."""
        return (old.error, new.error) in self._announces

    def _verify(self, fix: Fix, wanted: Sequence[Any], before: Any) -> Verdict:
        self._announces = [_ANNOUNCED[name] for name in fix.id.split("+") if name in _ANNOUNCED]
        with torch_side.settings_kept(SETTINGS.values()):
            return super()._verify(fix, wanted, before)

    def _at_another_batch(self, before: Any, after: Any) -> str | None:
        """The difference for a batch that is one larger; None if there is none, or the original does not accept it."""
        first: Outcome | None = next((each for each in before.outcomes if each.error is None), None)
        if first is None:
            return None
        inputs = Inputs(before.model, first.args, first.kwargs)
        sizes = {each: size + 1 for each, size in inputs.dimensions().items() if each.dim == 0}
        larger = inputs.resized(sizes)
        old = run(copy_of(before.model).eval(), larger.args, larger.kwargs, "another batch", False)
        if old.error is not None:
            return None
        new = run(copy_of(after.model).eval(), larger.args, larger.kwargs, "another batch", False)
        same, _, reason = agree(old, new)
        return None if same or self._announced(old, new) else reason

    def _compare_trace(self, verdict: Verdict, fix: Fix, after: Any) -> None:
        """Compare the captured program with eager, and describe the effect on the other captures."""
        example = next((each for each in after.outcomes if each.error is None), None)
        if example is not None and verdict.gone and not verdict.moved_to:
            model = copy_of(after.model).eval()
            eager = run(copy_of(model), example.args, example.kwargs, "captured", False)
            captured = self._captured(model, example)
            if captured is not None:
                same, difference, reason = agree(eager, run(captured, example.args, example.kwargs, "captured", False))
                verdict.max_error = max(verdict.max_error, difference)
                verdict.equal_to_eager = same
                if not same:
                    verdict.note = f"the captured program gives different results: {reason}"
        effects = self._effects(self.before.report, after.report)
        verdict.note = "; ".join(filter(None, [verdict.note, *effects])) or None

    def _captured(self, model: torch.nn.Module, example: Outcome) -> Any:
        """The captured model as a function; None if the capture fails for another reason."""
        args, kwargs = copied((example.args, example.kwargs))
        if self.capture == "compile":
            torch.compiler.reset()
            return _Quiet(torch.compile(model, backend="eager"))
        try:
            return torch_side.exported(model, args, kwargs).module()
        except Exception:
            return None

    def _effects(self, before: _Report, after: _Report) -> list[str]:
        """The effect on the captures that the fix is not for."""
        effects = []
        if after.traces != before.traces:
            effects.append(f"torch.fx {'traces it, too' if after.traces else 'no longer traces it'}")
        else:
            effects.append(f"torch.fx {'traces it' if after.traces else 'does not trace it'} as before")
        for name in ("export", "compile"):
            if name == self.capture or (name == "export" and self.capture == "shapes"):
                continue
            old, new = before.judgement.verdicts[name], after.judgement.verdicts[name]
            change = (
                "as before" if (old.outcome, old.breaks) == (new.outcome, new.breaks) else f"was {_outcome_text(old)}"
            )
            effects.append(f"{_NAMES[name]}: {_outcome_text(new)}, {change}")
        return effects


class _Quiet:
    """A compiled model, with Dynamo's output suppressed."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch_side.quiet():
            return self.model(*args, **kwargs)


def _outcome_text(verdict: Any) -> str:
    if verdict.outcome == "parts":
        return f"{verdict.breaks} break{'' if verdict.breaks == 1 else 's'}"
    return {"captured": "captured", "fails": "fails"}.get(verdict.outcome, "not known")


def _traces(model: torch.nn.Module) -> bool:
    from fxlib.capture.symbolic_trace import symbolic_trace

    try:
        with torch_side.quiet():
            symbolic_trace(copy_of(model))
    except Exception:
        return False
    return True
