"""What differs between the texts before and after a fix, written into its verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.fixes import apply_fix, own_place
from fxlib.diagnosis.fixes.compare import (
    KINDS,
    NOT_FINITE,
    WHOLE,
    agree,
    in_another_dtype,
    run,
    same_state,
    take_weights,
)
from fxlib.diagnosis.fixes.edits import mapped, touched
from fxlib.diagnosis.fixes.fix import REGISTERING, Fix
from fxlib.diagnosis.fixes.resize import shapes_of
from fxlib.diagnosis.fixes.sides import Side, Sides
from fxlib.diagnosis.fixes.switching import differing, switching
from fxlib.diagnosis.fixes.verdict import Verdict
from fxlib.ir.copies import whole_copy

__all__ = ["Differences"]


class Differences(Sides):
    """Compares both sides: findings, numbers, parameters, every branch, and the trace with eager."""

    _steady_names: set[str] | None = None

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

    def _compare_numbers(self, verdict: Verdict, before: Side, after: Side) -> None:
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

    def _compare_parameters(self, verdict: Verdict, fix: Fix, before: Side, after: Side) -> None:
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

    def _steady(self, state: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """The state that differs between two modules, without what differs from run to run anyway."""
        if same_state(state, other):
            return state
        if self._steady_names is None:
            again = self._side({}, {}, reported=False).state
            same = (name for name in state.keys() & again.keys() if same_state({name: state[name]}, again))
            self._steady_names = set(same)
        return {name: value for name, value in state.items() if name in self._steady_names}

    def _on_what(self, before: Side) -> str:
        """What assumed inputs a comparison was made on."""
        first = shapes_of((before.outcomes[0].args, before.outcomes[0].kwargs))
        other = next((each for each in before.outcomes if each.name.startswith("another size")), None)
        if other is None:
            return f"compared with eager on assumed inputs of one size, {first}"
        return (
            f"compared with eager on assumed inputs of two sizes, {first} and {shapes_of((other.args, other.kwargs))}"
        )

    def _why_not(self, before: Side) -> str:
        if self.example.inputs is None:
            return "no example inputs"
        if not before.outcomes:
            return "the model is too large"
        return f"eager fails on the example inputs with {before.outcomes[0].error}"

    def _compare_trace(self, verdict: Verdict, fix: Fix, after: Side) -> None:
        """Compare the traced module with eager, unless other findings are known to make it differ."""
        if not verdict.traces or not after.outcomes:
            return
        if any(f.severity in ("error", "warning") for f in after.report.findings):
            verdict.note = "; ".join(
                filter(None, [verdict.note, "other findings make the traced module differ from eager"])
            )
            return
        model = whole_copy(after.model)[0].eval()
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
                same, difference, reason = agree(run(whole_copy(model)[0], old.args, old.kwargs, old.name, False), new)
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
