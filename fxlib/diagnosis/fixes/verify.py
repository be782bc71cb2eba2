"""Verification: apply a fix to a copy, diagnose again, and compare with eager. Runs user code: for the worker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fxlib.diagnosis.comparison.sides import Tracing
from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.fixes import apply_fix, own_place, propose
from fxlib.diagnosis.fixes.differences import Differences
from fxlib.diagnosis.fixes.edits import Edit, reported
from fxlib.diagnosis.fixes.fix import Fix
from fxlib.diagnosis.fixes.reload import registrations_dropped
from fxlib.diagnosis.fixes.sides import Side, Tried
from fxlib.diagnosis.fixes.users import uses
from fxlib.diagnosis.fixes.verdict import Target, Verdict
from fxlib.diagnosis.rules import RULES
from fxlib.ir.copies import whole_copy

__all__ = ["MOVING", "Checker", "mark", "verify"]

_SLOW = 1.0  # seconds for one fix; above it the first proven one of a finding is enough
_HIDING = ("wrap", "leaf", "lift")  # kinds of fixes that keep a place out of the trace
MOVING = ("wrap", "lift")  # those that do so in the code
_OTHERS = 0.3  # seconds for further inputs of each other model that an edit concerns
_UNPROVEN = 3  # fixes of one finding that are offered although nothing could be compared


Nodes = Counter[tuple[str, str]]


class Checker(Differences):
    """Verifies the fixes of one target of one file; the results of the unedited text are computed once.

    Args:
        path: the file that defines the target.
        construct: the expression that makes the module, in the names of the file.
        inputs: the arguments of forward as written in a call, ``"torch.randn(1, 3), scale=2"``; None where unknown.
        read: gives the text of a file as the trace saw it, or None.
        load: executes a file with other texts in place of files, ``load(path, {path: text})``, and returns its module.
        assumed: the inputs are not given by the user: the proof says on which inputs it is based.
        concrete_args, leaf_modules, tracer: options of the diagnosis.
        names: what the expressions may use beside the file's own names, ``torch`` and ``nn``.
        seconds: CPU time for further inputs, per text.
        total: CPU time for all fixes; the rest is offered unverified.
        lacking: the context in which to construct the module if that raises; None if the exception is an error of the
            code.
        others: modules of the file, of which those that use what a fix changes have to compute the same with it, too.
        unsafe: whether a fix that assumes something counts as proven, too; otherwise the others are tried first.
    """

    def __init__(
        self,
        path: str,
        construct: str,
        inputs: str | None,
        *,
        total: float = 15.0,
        others: Iterable[Target] = (),
        unsafe: bool = False,
        **options: Any,
    ):
        super().__init__(path, construct, inputs, **options)
        self.unsafe = unsafe
        self.left = total
        self._others: dict[Target, Checker | None] = {
            each: None for each in others if (each.construct, each.inputs) != (construct, inputs)
        }
        self.proven: dict[Any, Verdict] = {}
        """Verdicts of fixes that were verified together with others (`together`), by their edits and the finding's
        place."""
        self._kept: set[Edit] = set()
        """Edits of several fixes in one text that computed the same as the text before: then each of them does."""
        self._works = True
        self._nodes: list[Nodes] | None = None

    def verify(self, fix: Fix, finding: Any, *more: Any) -> Verdict:
        """Apply ``fix``, for ``finding`` and what else it is to fix, and return the verdict; it is ``failed`` if the
        text raises."""
        known = self.proven.get(mark(fix, finding))
        if known is not None and not more:
            return replace(known, side_effects=[*known.side_effects])
        before = self.before
        if self._bare and not self._numbers and not reported(before.report, finding):
            # Code that reads values, or the device, behaves differently on meta.
            self._numbers, self._before = True, None
            before = self.before
        numbers = self._numbers
        with registrations_dropped():
            verdict = self._verify(fix, (finding, *more), before)
        if self._numbers == numbers:
            return verdict
        # The edited text needs real weights: then the other one gets them, too.
        self._before = None
        return self.verify(fix, finding, *more)

    def _verify(self, fix: Fix, wanted: Sequence[Any], before: Side) -> Verdict:
        verdict = Verdict()
        # One edit may be the fix of several findings, such as a function that is wrapped.
        key = _key(fix)
        known = before.tried.get(key)
        if known is not None:
            verdict = replace(known.verdict, moved_to=[], side_effects=list(known.verdict.side_effects))
            self._compare_findings(verdict, fix, wanted, known.findings)
            if not verdict.gone or (known.compared and bool(known.verdict.moved_to) == bool(verdict.moved_to)):
                return verdict
            verdict = Verdict()

        kept = not fix.settings and self._kept.issuperset(fix.edits)

        def compares(report: Any) -> bool:
            verdict.traces = report.traces
            self._compare_findings(verdict, fix, wanted, report.findings)
            # If several fixes fail together, their results still say something about each of them.
            return verdict.gone or (len(wanted) > 1 and not kept)

        try:
            after = self._side(apply_fix(fix, self.read), fix.settings, compares, kept=kept)
        except Exception as error:
            return Verdict(failed=f"{type(error).__name__}: {text_of(error)}")
        if verdict.gone or after.outcomes:
            self._compare_numbers(verdict, before, after)
            self._compare_parameters(verdict, fix, before, after)
            self._compare_trace(verdict, fix, after)
            self._compare_branches(verdict, fix)
            # A silent finding says that the graph has to become another one.
            hides = fix.kind in MOVING and any(RULES[each.code].loud for each in wanted)
            if fix.kind in MOVING:
                verdict.hazard = left_out(after.report, before.report)
            if not kept:
                self._compare_others(verdict, fix, hides)
            if hides and verdict.same_eager and not before.report.traces and self.is_traced_otherwise(fix, after):
                verdict.hazard = "its graph in eval mode, which is traced as it is, then has other nodes"
        if len(wanted) > 1 and verdict.same_eager and not verdict.side_effects:
            self._kept.update(fix.edits)
        before.tried[key] = Tried(after.report.findings, replace(verdict), verdict.gone)
        return verdict

    def settle(self, finding: Any, recipes: Iterable[str] | None = None, every: bool = True) -> list[Fix]:
        """The verified fixes of a finding that may be offered: proven ones first, at most one of them preferred.

        ``recipes`` are the ids of those to try; all of the finding's rule when left out. Without ``every`` the others
        are offered unchecked once one is proven. If no time is left, a fix is offered unchecked, and as ``late``.
        """
        offered: list[Fix] = []
        slow = False
        for fix in self.fixes_of(finding, recipes):
            if len(offered) == _UNPROVEN and not self.comparable:
                break
            if fix.kind in _HIDING and self._fails_in_eager(finding):
                continue
            proven = any(map(self._counts, offered))
            if proven and (slow or self.left < 0 or not every):
                reason = "not checked: another fix is proven" + (", and checking is slow" if every else "")
                offered.append(replace(fix, note="; ".join(filter(None, [fix.note, reason]))))
                continue
            if self.left < 0 and mark(fix, finding) not in self.proven:
                reason = "not checked: out of time"
                offered.append(replace(fix, note="; ".join(filter(None, [fix.note, reason])), late=True))
                continue
            start = time.thread_time()
            settled = fix.settled(self.verify(fix, finding))
            taken = time.thread_time() - start
            self.left -= taken
            slow = slow or taken > _SLOW
            if settled is not None:
                offered.append(settled)
        offered.sort(key=lambda fix: (not self._counts(fix), bool(fix.settings), not fix.checked, not fix.first))
        unproven = [fix for fix in offered if not fix.checked][_UNPROVEN:]
        offered = [fix for fix in offered if fix not in unproven]
        return [fix if i == 0 else replace(fix, preferred=False) for i, fix in enumerate(offered)]

    def fixes_of(self, finding: Any, recipes: Iterable[str] | None = None) -> list[Fix]:
        """The proposed fixes in the order in which they are offered: those after the last offered one need not be
        tried."""
        return sorted(
            propose(finding, self.read, recipes, project=True),
            key=lambda fix: (bool(fix.settings), not self.unsafe and fix.hazard is not None, not fix.first),
        )

    def _counts(self, fix: Fix) -> bool:
        return fix.proven if self.unsafe else fix.preferred

    def may_hold(self, fix: Fix, finding: Any) -> bool:
        """Whether the fix can be compared with eager, and does not hide a mistake."""
        return self.comparable and not (fix.kind in _HIDING and self._fails_in_eager(finding))

    @property
    def comparable(self) -> bool:
        return any(each.error is None for each in self.before.outcomes)

    def _fails_in_eager(self, finding: Any) -> bool:
        """Whether forward raises the same without a trace: then the code is wrong, and no fix may hide that."""
        raises, outcomes = finding.data.get("raises"), self.before.outcomes
        return bool(raises and outcomes) and all(each.error == raises for each in outcomes)

    def on_all_branches(self, verdict: Verdict, fix: Fix) -> Verdict:
        """The verdict on a text with this fix and others, and on every path through the branches that it rewrites."""
        own = replace(verdict, side_effects=[*verdict.side_effects])
        with registrations_dropped():
            self._compare_branches(own, fix)
        return own

    def found_with(self, fix: Fix) -> list[Any]:
        """The findings of the text after a fix that was verified; none where that could not be traced."""
        known = self.before.tried.get(_key(fix))
        return [] if known is None else known.findings

    def brought_up(self, fix: Fix) -> list[Any]:
        """The new findings that a verified fix causes, if nothing else speaks against it."""
        known = self.before.tried.get(_key(fix))
        if known is None or not known.verdict.gone or known.verdict.same_eager is False:
            return []
        lines = known.verdict.moved_to
        return [each for each in known.findings if each.span is not None and own_place(each).line in lines]

    def _compare_others(self, verdict: Verdict, fix: Fix, hides: bool) -> None:
        """Compare both texts on the other models of the file that use what the fix changes: as a base class, as a part,
        or by reading state that it writes. If it ``hides`` code from traces, their graphs are compared, too."""
        same = self._runs_as_before(apply_fix(fix, self.read), fix.settings)
        for other in self._others if verdict.same_eager and (fix.kind in MOVING or not same) else ():
            if not uses(other.construct, self.path, self.read, fix.edits):
                continue
            checker = self._others[other]
            if checker is None:
                options: dict[str, Any] = {"read": self.read, "load": self.load, "seconds": _OTHERS}
                options |= {"names": self.names, "lacking": self.example.lacking, "assumed": other.assumed}
                checker = self._others[other] = Checker(self.path, other.construct, other.inputs, **options)
            reason = None if same else checker.differs(fix)
            if reason is not None:
                verdict.same_eager = False
                verdict.note = f"`{other.construct}` uses the edited code: {reason}"
                return
            if fix.kind in MOVING and verdict.hazard is None:
                verdict.hazard = checker.leaves_out(fix)
            if hides and checker.is_traced_otherwise(fix):
                verdict.hazard = f"the graph of `{other.construct}`, which is traced as it is, then has other nodes"

    def differs(self, fix: Fix) -> str | None:
        """What the model does differently with the fix; None if nothing differs, or if the model does not work
        anyway."""
        if not self._works:
            return None
        try:
            if self._before is None:
                self._before = self._side({}, {}, reported=False)
        except Exception:
            self._works = False
            return None
        try:
            after = self._side(apply_fix(fix, self.read), {}, reported=False)
        except Exception as error:
            return f"raises {type(error).__name__}: {text_of(error)}"
        verdict = Verdict()
        self._compare_numbers(verdict, self._before, after)
        return verdict.note if verdict.same_eager is False or verdict.side_effects else None

    def leaves_out(self, fix: Fix) -> str | None:
        """What the graph of the model then leaves out of its code."""

        def report(texts: dict[str, str]) -> Any:
            return self._side(texts, {}, lambda report: False).report

        try:
            after = report(apply_fix(fix, self.read))
            return left_out(after, report({})) if left_out(after) else None
        except Exception:
            return None

    def is_traced_otherwise(self, fix: Fix, after: Side | None = None) -> bool:
        """Whether the model, as it is or in eval mode, is traced without the fix, and into other nodes than with it.
        ``after``: the side with it, if there is one."""
        if self._nodes is None:
            self._nodes = self._traced({}, fix)  # executed again: what the file wraps may be forgotten by now
        if not any(self._nodes):
            return False
        new = self._traced(apply_fix(fix, self.read), fix) if after is None else self._nodes_of(after.model, fix)
        return any(before and before != now for before, now in zip(self._nodes, new, strict=True))

    def _traced(self, texts: dict[str, str], fix: Fix) -> list[Nodes]:
        try:
            with self._names_of(texts) as namespace:
                return self._nodes_of(self._made(namespace)[0], fix)
        except Exception:
            return [Nodes()] * 2

    def _nodes_of(self, model: Any, fix: Fix) -> list[Nodes]:
        """The nodes of a model's graph, as it is and in eval mode; none if torch.fx would not trace it."""
        tracing = Tracing(self._concrete(fix.settings), frozenset(self._leaves(fix.settings)), self.tracer)
        found = []
        for made in (model, whole_copy(model)[0].eval()):
            try:
                graph = tracing.trace(made, tracing.new()).graph
            except Exception:
                found.append(Nodes())
            else:
                found.append(Nodes((node.op, node._pretty_print_target(node.target)) for node in graph.nodes))
        return found


def left_out(after: Any, before: Any = None) -> str | None:
    """What a graph leaves out because functions are one call each in it, and what the one before did not; see FX242."""
    new, known = (_beside(report) if report else [] for report in (after, before))
    return next((each for each in new if each not in known), None)


def _beside(report: Any) -> list[str]:
    return [*(each.message for each in report.findings if each.code == "FX242"), *report.doubts]


def mark(fix: Fix, finding: Any) -> Any:
    """A key for a fix and its finding."""
    return fix.edits, finding.code, finding.span.file, finding.span.line, finding.span.column


def _key(fix: Fix) -> tuple[Any, ...]:
    return fix.id, fix.edits, repr(fix.settings)


def verify(fix: Fix, finding: Any, *, path: str, construct: str, inputs: str | None, **options: Any) -> Verdict:
    """Verify one fix; see :class:`Checker` for the arguments."""
    return Checker(path, construct, inputs, **options).verify(fix, finding)
