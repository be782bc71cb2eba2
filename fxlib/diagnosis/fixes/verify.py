"""Verification: apply a fix to a copy, diagnose again, and compare with eager. Runs user code: for the worker."""

from __future__ import annotations

import contextlib
import linecache
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.fixes import apply_fix, own_place, propose, read_file
from fxlib.diagnosis.fixes.compare import (
    KINDS,
    NOT_FINITE,
    WHOLE,
    Outcome,
    agree,
    in_another_dtype,
    run,
    same_state,
    seed_all,
    state_of,
    take_weights,
)
from fxlib.diagnosis.fixes.edits import Edit, mapped, reported, touched
from fxlib.diagnosis.fixes.example import Example, Given, Lacking, nothing, positional
from fxlib.diagnosis.fixes.fix import REGISTERING, Fix
from fxlib.diagnosis.fixes.reload import forget, load_file, registrations_dropped
from fxlib.diagnosis.fixes.resize import shapes_of
from fxlib.diagnosis.fixes.same_code import runs_the_same
from fxlib.diagnosis.fixes.switching import differing, switching
from fxlib.diagnosis.fixes.users import uses
from fxlib.diagnosis.fixes.verdict import Target, Verdict
from fxlib.ir.modules import copy_of

__all__ = ["Checker", "Load", "Read", "mark", "verify"]

Load = Callable[[str, dict[str, str]], Any]
Read = Callable[[str], "str | None"]

_LARGEST = 150_000_000  # parameters; two copies of a larger model need too much memory
_SLOW = 1.0  # seconds for one fix; above it the first proven one of a finding is enough
_HIDING = ("wrap", "leaf", "lift")  # kinds of fixes that keep a place out of the trace
_OTHERS = 0.3  # seconds for further inputs of each other model that an edit concerns
_UNPROVEN = 3  # fixes of one finding that are offered although nothing could be compared

_edited: set[str] = set()
"""Files whose lines in `linecache` are those of the last text that any Checker of this process has executed."""


@dataclass
class _Side:
    """One of the two texts: its model, its report, and what it computed. ``tried`` has the results of edited texts."""

    model: Any
    report: Any
    outcomes: list[Outcome]
    state: dict[str, Any]
    weights: dict[str, torch.Tensor]
    tried: dict[Any, _Tried] = field(default_factory=dict)


@dataclass(frozen=True)
class _Tried:
    """An edited text: its findings, and the part of the verdict that is the same for every finding. ``compared`` says
    whether eager was run."""

    findings: list[Any]
    verdict: Verdict
    compared: bool


class Checker:
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
    """

    def __init__(
        self,
        path: str,
        construct: str,
        inputs: str | None,
        *,
        read: Read = read_file,
        load: Load | None = None,
        assumed: bool = False,
        concrete_args: Mapping[str, Any] | None = None,
        leaf_modules: tuple[str, ...] = (),
        tracer: Callable[[], Any] | None = None,
        names: Mapping[str, Any] | None = None,
        seconds: float = 0.5,
        total: float = 15.0,
        lacking: Lacking = nothing,
        others: Iterable[Target] = (),
    ):
        self.path = path
        self.example = Example(construct, inputs, seconds, lacking, assumed)
        self.read = read
        self.load = load or (lambda file, texts: load_file(file, texts, self.read))
        self.assumed = assumed
        self.concrete_args = dict(concrete_args or {})
        self.leaf_modules = tuple(leaf_modules)
        self.tracer = tracer
        self.names = {"torch": torch, "nn": torch.nn, **(names or {})}
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
        self._before: _Side | None = None
        self._steady_names: set[str] | None = None
        # Whether nothing can be compared; then a large model gets real weights only if the code needs them.
        self._bare = inputs is None
        self._numbers = False

    @property
    def before(self) -> _Side:
        if self._before is None:
            with registrations_dropped():
                self._before = self._side({}, {})
        return self._before

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

    def _verify(self, fix: Fix, wanted: Sequence[Any], before: _Side) -> Verdict:
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
            if not kept:
                self._compare_others(verdict, fix)
        if len(wanted) > 1 and verdict.same_eager and not verdict.side_effects:
            self._kept.update(fix.edits)
        before.tried[key] = _Tried(after.report.findings, replace(verdict), verdict.gone)
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
            proven = any(known.preferred for known in offered)
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
        offered.sort(key=lambda fix: (not fix.preferred, bool(fix.settings), not fix.checked, not fix.first))
        unproven = [fix for fix in offered if not fix.checked][_UNPROVEN:]
        offered = [fix for fix in offered if fix not in unproven]
        return [fix if i == 0 else replace(fix, preferred=False) for i, fix in enumerate(offered)]

    def fixes_of(self, finding: Any, recipes: Iterable[str] | None = None) -> list[Fix]:
        """The proposed fixes in the order in which they are offered: those after the last offered one need not be
        tried."""
        return sorted(
            propose(finding, self.read, recipes, project=True),
            key=lambda fix: (bool(fix.settings), fix.hazard is not None, not fix.first),
        )

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

    # ---- one side

    def _side(
        self,
        texts: dict[str, str],
        settings: dict[str, Any],
        compares: Callable[[Any], bool] = lambda report: True,
        reported: bool = True,
        kept: bool = False,
    ) -> _Side:
        """Run one text. Eager runs if ``compares`` is true for the report (None unless ``reported``). It need not run
        if the code is that of the text before, or is ``kept`` as one that computes the same."""
        with self._names_of(texts) as namespace:
            model, given = self._made(namespace)
            if self._before is not None:
                take_weights(model, self._before.weights)
            outcomes: list[Outcome] = []
            concrete = self._concrete(settings)
            if given is not None:
                concrete = {**(given[1].pop("concrete_args", None) or {}), **concrete}
            weights = {} if self._bare else self._weights_of(model)
            report = None
            if reported:
                traced = model if self._bare else copy_of(model, sharing=True)
                report = self._report(traced, given, concrete, self._leaves(settings))
                take_weights(model, weights)
            before = self._before
            if compares(report) and not self._bare:
                if before is not None and (kept or self._runs_as_before(texts, settings)):
                    return _Side(model, report, before.outcomes, before.state, weights)
                like = None if before is None else before.outcomes
                outcomes = self.example.runs(model, namespace, concrete, like, weights)
            return _Side(model, report, outcomes, state_of(model), weights)

    def _weights_of(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """Copies of a model's parameters and buffers; those taken from the text before exist already."""
        known = self._before.weights if self._before is not None else {}
        return {
            name: known[name] if name in known and known[name].shape == tensor.shape else tensor.detach().clone()
            for name, tensor in model.state_dict().items()
        }

    def _runs_as_before(self, texts: dict[str, str], settings: dict[str, Any]) -> bool:
        return not settings.get("concrete_args") and runs_the_same(texts, self.read)

    @contextlib.contextmanager
    def _names_of(self, texts: dict[str, str]) -> Iterator[dict[str, Any]]:
        """The names that expressions may use, from the file executed with ``texts`` in place of files; it is forgotten
        on exit."""
        known = set(sys.modules)
        # Otherwise linecache has the lines of the text before, in which functions of this text are not found.
        for file in _edited:
            linecache.cache.pop(file, None)
        _edited.clear()
        _edited.update(texts)
        try:
            seed_all(0)
            module = self.load(self.path, texts)
            yield {**self.names, **vars(module)}
        finally:
            forget(known)

    def _made(self, namespace: dict[str, Any]) -> tuple[torch.nn.Module, Given | None]:
        """The model and the arguments of forward: on meta if nothing can be compared, the model is large, and that
        works. Code that reads the device takes another branch on meta."""
        if self._bare and not self._numbers:
            with contextlib.suppress(Exception):
                with torch.device("meta"):
                    model, given = self.example.made(namespace)
                if _is_large(model):
                    return model, given
            made = self.example.made(namespace)
            self._numbers = True  # only now: if the text fails with real weights, too, the other one does not need them
            return made
        model, given = self.example.made(namespace)
        if not self._bare and _is_large(model):
            self._bare = True
            if not self._numbers:
                del model
                return self._made(namespace)
        return model, given

    def _concrete(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {**self.concrete_args, **settings.get("concrete_args", {})}

    def _leaves(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return (*self.leaf_modules, *settings.get("leaf_modules", ()))

    def _report(
        self,
        model: torch.nn.Module,
        given: Given | None,
        concrete: dict[str, Any],
        leaves: tuple[str, ...],
    ) -> Any:
        """The report of one text, with ``findings`` and ``graph_module``."""
        from fxlib.diagnosis.diagnose import diagnose

        inputs = positional(model, given, concrete) if given is not None else None
        return diagnose(model, inputs, concrete_args=concrete or None, leaf_modules=leaves, tracer=self.tracer)

    # ---- comparisons

    def _compare_findings(self, verdict: Verdict, fix: Fix, wanted: Sequence[Any], found: list[Any]) -> None:
        """Match findings before and after by code and line, lines mapped through the edits; findings that are
        ``wanted`` gone must not remain."""
        expected: Counter = Counter()
        for old in self.before.report.findings:
            if old.span is not None:
                expected[(old.code, *mapped(fix.edits, old.span))] += 1
        own = [(each.code, *mapped(fix.edits, each.span)) for each in wanted]
        expected.subtract(own)
        codes = {each.code for each in wanted}
        verdict.gone = True
        for new in found:
            if new.span is None:
                continue
            key = (new.code, new.span.file, new.span.line)
            if expected[key] > 0:
                expected[key] -= 1
            elif key in own or (new.code in codes and touched(fix.edits, new.span)):
                verdict.gone = False
            elif new.severity in ("error", "warning") and (line := own_place(new).line) not in verdict.moved_to:
                verdict.moved_to.append(line)
        verdict.moved_to.sort()

    def _compare_numbers(self, verdict: Verdict, before: _Side, after: _Side) -> None:
        pairs = list(zip(before.outcomes, after.outcomes, strict=False))
        if not any(old.error is None for old, _ in pairs):
            verdict.note = "not compared with eager: " + self._why_not(before)
            return
        verdict.same_eager = True
        notes: list[str] = []
        grown = not after.weights.keys() <= before.weights.keys()
        for old, new in pairs:
            if old.name in KINDS and (old.error is not None or (grown and old.name != WHOLE)):
                continue  # eager refuses that dtype, or a new submodule follows the model's dtype
            same, error, reason = agree(old, new)
            if old.name in KINDS:
                if not same:
                    (notes if old.name == WHOLE else verdict.side_effects).append(in_another_dtype(old.name, reason))
                continue
            verdict.max_error = max(verdict.max_error, error)
            if not same and old.name.startswith(NOT_FINITE) and math.isfinite(error):
                verdict.side_effects.append(f"it gives different results for non-finite values: {reason}")
            elif not same:
                verdict.same_eager = False
                verdict.note = f"the edited model gives different results ({old.name}): {reason}"
                return
            for effect in old.differing_effects(new):
                if effect not in verdict.side_effects:
                    verdict.side_effects.append(effect)
        state = before.state
        if len(before.outcomes) == len(after.outcomes) and not same_state(
            self._steady(state, after.state), after.state
        ):
            verdict.side_effects.append("the state of the module after a call differs")
        notes = verdict.side_effects + notes
        if self.assumed and not verdict.side_effects:
            notes.append(self._on_what(before))
        verdict.note = "; ".join(notes) or None

    def _compare_parameters(self, verdict: Verdict, fix: Fix, before: _Side, after: _Side) -> None:
        """A layer that was made anew in each call, untrained, would be trained and saved with the model."""
        added = sorted(after.weights.keys() - before.weights.keys())
        if verdict.same_eager and added and fix.id not in REGISTERING:
            verdict.side_effects.append(f"the edited model has new parameters or buffers: {', '.join(added)}")
            verdict.note = "; ".join(verdict.side_effects)

    def _compare_branches(self, verdict: Verdict, fix: Fix) -> None:
        """Compare both texts on every path through the branches that the fix rewrites."""
        branches = fix.branches
        if branches is None or not verdict.same_eager or verdict.equal_to_eager is False:
            return
        sides = []
        reason: str | None = None
        with switching() as switch:
            for edits in (branches.before, branches.after):
                try:
                    with self._names_of(apply_fix(replace(fix, edits=edits), self.read)) as namespace:
                        model, given = self.example.made(namespace)
                        take_weights(model, self.before.weights)
                        own = given[1].get("concrete_args") if given is not None else None
                        concrete = {**(own or {}), **self._concrete(fix.settings)}
                        sides.append(self.example.switched_runs(model, namespace, concrete, switch, branches.count))
                except Exception as error:
                    verdict.same_eager, verdict.note = None, f"not compared with eager on all branches: {error!r}"
                    return
        every, reason, effects, whole = differing(*sides)
        if reason is not None:
            verdict.same_eager = False
            verdict.note = f"the edited model gives different results on another branch: {reason}"
        elif effects or (every and whole):
            verdict.side_effects = list(dict.fromkeys([*verdict.side_effects, *effects]))
            known = verdict.note or ""
            verdict.note = "; ".join(filter(None, [known, *(each for each in (*effects, *whole) if each not in known)]))
        elif not every:
            verdict.same_eager = None
            verdict.note = "not compared with eager on all branches: no input that was tried reaches them"

    def _compare_others(self, verdict: Verdict, fix: Fix) -> None:
        """Compare both texts on the other models of the file that use what the fix changes: as a base class, as a part,
        or by reading state that it writes."""
        same = self._runs_as_before(apply_fix(fix, self.read), fix.settings)
        for other in self._others if verdict.same_eager and not same else ():
            if not uses(other.construct, self.path, self.read, fix.edits):
                continue
            checker = self._others[other]
            if checker is None:
                options: dict[str, Any] = {"read": self.read, "load": self.load, "seconds": _OTHERS}
                options |= {"names": self.names, "lacking": self.example.lacking, "assumed": other.assumed}
                checker = self._others[other] = Checker(self.path, other.construct, other.inputs, **options)
            reason = checker.differs(fix)
            if reason is not None:
                verdict.same_eager = False
                verdict.note = f"`{other.construct}` uses the edited code: {reason}"
                return

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

    def _steady(self, state: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """The state that differs between two modules, without what differs from run to run anyway."""
        if same_state(state, other):
            return state
        if self._steady_names is None:
            again = self._side({}, {}, reported=False).state
            same = (name for name in state.keys() & again.keys() if same_state({name: state[name]}, again))
            self._steady_names = set(same)
        return {name: value for name, value in state.items() if name in self._steady_names}

    def _on_what(self, before: _Side) -> str:
        """What assumed inputs a comparison was made on."""
        first = shapes_of((before.outcomes[0].args, before.outcomes[0].kwargs))
        other = next((each for each in before.outcomes if each.name.startswith("another size")), None)
        if other is None:
            return f"compared with eager on assumed inputs of one size, {first}"
        return (
            f"compared with eager on assumed inputs of two sizes, {first} and {shapes_of((other.args, other.kwargs))}"
        )

    def _why_not(self, before: _Side) -> str:
        if self.example.inputs is None:
            return "no example inputs"
        if not before.outcomes:
            return "the model is too large"
        return f"eager fails on the example inputs with {before.outcomes[0].error}"

    def _compare_trace(self, verdict: Verdict, fix: Fix, after: _Side) -> None:
        """Compare the traced module with eager, unless other findings are known to make it differ."""
        if not verdict.traces or not after.outcomes:
            return
        if any(f.severity in ("error", "warning") for f in after.report.findings):
            verdict.note = "; ".join(
                filter(None, [verdict.note, "other findings make the traced module differ from eager"])
            )
            return
        model = copy_of(after.model).eval()
        take_weights(model, after.weights)
        try:
            traced = self._trace(model, fix)
        except Exception as error:
            verdict.equal_to_eager = False
            verdict.note = f"the trace in eval mode fails: {type(error).__name__}: {text_of(error)}"
            return
        verdict.equal_to_eager = True
        concrete = self._concrete(fix.settings)
        for old in after.outcomes:
            if not old.name.endswith("eval") or old.error is not None:
                continue
            kwargs = {k: v for k, v in old.kwargs.items() if k not in concrete}
            new = run(traced, old.args, kwargs, old.name, False)
            same, difference, reason = agree(old, new)
            if not same:
                # By now the model may have updated state, such as running means.
                same, difference, reason = agree(run(copy_of(model), old.args, old.kwargs, old.name, False), new)
            verdict.max_error = max(verdict.max_error, difference)
            if not same:
                verdict.equal_to_eager = False
                verdict.note = f"the traced module gives different results ({old.name}): {reason}"
                return

    def _trace(self, model: torch.nn.Module, fix: Fix) -> Any:
        from fxlib.codegen.graph_module import GraphModule
        from fxlib.diagnosis.diagnose import diagnose

        concrete = self._concrete(fix.settings)
        leaves = self._leaves(fix.settings)
        report = diagnose(model, concrete_args=concrete or None, leaf_modules=leaves, tracer=self.tracer)
        if not isinstance(report.graph_module, GraphModule):
            raise RuntimeError("torch.fx does not trace the model in eval mode")
        return report.graph_module


def mark(fix: Fix, finding: Any) -> Any:
    """A key for a fix and its finding."""
    return fix.edits, finding.code, finding.span.file, finding.span.line, finding.span.column


def _key(fix: Fix) -> tuple[Any, ...]:
    return fix.id, fix.edits, repr(fix.settings)


def _is_large(model: torch.nn.Module) -> bool:
    # Parameters of a lazy layer have no size before its first call.
    return sum(each.numel() for each in model.parameters() if not is_lazy(each)) > _LARGEST


def verify(fix: Fix, finding: Any, *, path: str, construct: str, inputs: str | None, **options: Any) -> Verdict:
    """Verify one fix; see :class:`Checker` for the arguments."""
    return Checker(path, construct, inputs, **options).verify(fix, finding)
