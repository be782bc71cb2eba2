"""How a model is made and called, as expressions, and the eager results with them."""

from __future__ import annotations

import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from fxlib.diagnosis import lazy_layers
from fxlib.diagnosis.fixes.compare import (
    EXTREME,
    KINDS,
    NEGATED,
    STEEP,
    TRIAL,
    Outcome,
    agree,
    of_kind,
    run,
    seed_all,
    take_weights,
    variants,
)
from fxlib.diagnosis.fixes.filling import repeated_draws
from fxlib.diagnosis.fixes.resize import Resize, another_size, small_enough
from fxlib.diagnosis.fixes.switching import Switch
from fxlib.ir.copies import whole_copy

__all__ = ["Example", "Lacking", "nothing", "positional"]

Given = tuple[tuple[Any, ...], dict[str, Any]]
Variant = tuple[str, tuple[Any, ...], dict[str, Any]]
Lacking = Callable[[Exception], "AbstractContextManager[None] | None"]

_SLOW = 0.1  # CPU seconds for one run
_TRIALS = 0.75  # seconds for finding another size
_CHEAP = 0.05  # seconds for one run with gradients; below it every run in eval mode has them
_COPIED = 20_000_000  # parameters; to copy more of them for a run takes longer than the run
_PATIENCE = 4  # times as long for the edited text, so that it gets as many runs as the original


def nothing(error: Exception) -> None:
    """The default of ``lacking``: every exception is an error of the code."""


class Example:
    """Expressions in the names of the file that defines a model.

    Args:
        construct: makes the model.
        inputs: the arguments of forward as written in a call; None where unknown.
        seconds: CPU time for further inputs, per text.
        lacking: the context in which to construct the module if that raises; None if the exception is an error of the
            code.
        assumed: nobody gave the inputs: if eager is slow with them, smaller ones take their place.
    """

    def __init__(
        self,
        construct: str,
        inputs: str | None,
        seconds: float,
        lacking: Lacking = nothing,
        assumed: bool = False,
    ) -> None:
        self.construct = construct
        self.inputs = inputs
        self.seconds = seconds
        self.lacking = lacking
        self.assumed = assumed
        self._small: Resize | None = None
        self._trial: Outcome | None = None
        self._took = 0.0  # seconds, the trial
        self._resize: Resize | None = None
        self._slow = self._smaller = False
        self._quick = False
        self.differentiable = False

    def made(self, namespace: dict[str, Any]) -> tuple[torch.nn.Module, Given | None]:
        """A new model, with the same weights each time, and its arguments. Raises TypeError where the expression makes
        something else, and what the expressions raise."""
        seed_all(0)
        with repeated_draws():
            model = self._model(namespace)
        given = self.arguments(namespace, 0)
        if given is not None:
            args, kwargs = given
            lazy_layers.settle(model, args, {**kwargs, **kwargs.get("concrete_args", {})})
        return model, given

    def _model(self, namespace: dict[str, Any]) -> torch.nn.Module:
        code = compile(self.construct, "<fxlens construct>", "eval")
        try:
            model = eval(code, namespace)
        except Exception as error:
            context = self.lacking(error)
            if context is None:
                raise
            with context:
                model = eval(code, namespace)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"`{self.construct}` gives {type(model).__name__}, not a module")
        return model

    def arguments(self, namespace: dict[str, Any], seed: int) -> Given | None:
        """Positional arguments, and those by keyword; None where unknown."""
        if self.inputs is None:
            return None
        seed_all(seed + 1)
        scope = {**namespace, "__fxlens_arguments__": lambda *args, **kwargs: (args, kwargs)}
        return eval(compile(f"__fxlens_arguments__({self.inputs})", "<fxlens inputs>", "eval"), scope)

    def runs(
        self,
        model: torch.nn.Module,
        namespace: dict[str, Any],
        concrete: dict[str, Any],
        like: list[Outcome] | None,
        weights: dict[str, torch.Tensor],
    ) -> list[Outcome]:
        """Eager on every variant of the inputs, in eval and in train mode; gradients once, and, where the model takes
        inputs that need them and is quick, in the runs in eval mode on `STEEP`, together with those of the inputs.

        The example comes first, then another size, then the others while time is left; other dtypes, with a copy of the
        model in that dtype, only if a run is quick. If the example is slow, assumed inputs are made smaller, and the
        other size is smaller still: train mode, gradients and the other variants then use that size, and the example in
        train mode comes last. The second text gets as many runs as the first (``like`` their outcomes, None for the
        first), since state such as running means depends on their number; but none after one with a different result in
        the example's dtype. ``weights`` are those of the model.
        """
        if like is None:
            self._small = self._trial = None
        if like is None and self.assumed:
            self._small = self._small_enough(model, *self._given(model, namespace, 0, concrete))
        outcomes: list[Outcome] = []
        most = None if like is None else len(like)
        end = time.thread_time() + self.seconds * (1 if like is None else _PATIENCE)
        mode = model.training
        if like is None:
            self._resize = self._another_size(model, *self._given(model, namespace, 0, concrete))
            self.differentiable = not self._slow and self._has_gradients(
                model, *self._given(model, namespace, 0, concrete)
            )
            take_weights(model, weights)  # the trials share its parameters
        least = 2 if self._resize is None else 4 if self._smaller else 3
        named = variants(lambda seed: self._given(model, namespace, seed, concrete), self._resize, self._smaller)
        for index, ((name, args, kwargs), training) in enumerate(self._calls(named)):
            if len(outcomes) == most or (len(outcomes) >= least and time.thread_time() > end):
                break
            model.train(training)
            if name in KINDS:
                if (like or outcomes)[0].error is None:
                    outcomes.append(run(of_kind(model, name), args, kwargs, name, False))
                continue
            name = f"{name}, {'train' if training else 'eval'}"
            steep = self.differentiable and not training and name.startswith(STEEP)
            if index or not self._smaller:
                outcomes.append(run(model, args, kwargs, name, steep or index == self._smaller, steep))
            elif like is None and self._trial is not None:
                outcomes.append(replace(self._trial, name=name))
            else:
                # On a copy, as in the search for the size: the state of the model is compared at the end.
                outcomes.append(run(whole_copy(model, sharing=True)[0], args, kwargs, name, False))
                take_weights(model, weights)
            if like is not None and not agree(like[len(outcomes) - 1], outcomes[-1])[0]:
                break
        model.train(mode)
        return outcomes

    def _calls(self, named: Iterator[Variant]) -> Iterator[tuple[Variant, bool]]:
        """Each variant in eval and in train mode, extreme ones and other dtypes in eval mode only; a slow example in
        train mode last."""
        last: Variant | None = None
        for index, variant in enumerate(named):
            if variant[0] in KINDS and not self._quick:
                continue
            yield variant, False
            if self._smaller and not index:
                last = variant
            elif variant[0] not in EXTREME and variant[0] not in KINDS:
                yield variant, True
        if last is not None:
            yield last, True

    def switched_runs(
        self, model: torch.nn.Module, namespace: dict[str, Any], concrete: dict[str, Any], switch: Switch, count: int
    ) -> list[list[Outcome]]:
        """Eager with gradients for every path through ``count`` conditions. If a run does not reach a path, that is an
        error of the run."""
        ways: list[list[Outcome]] = []
        for switch.way in range(count + 1):
            ways.append([])
            named = variants(lambda seed: self._given(model, namespace, seed, concrete), self._resize, self._smaller)
            number = 4 if self.differentiable and self._resize else 2
            sized = itertools.takewhile(lambda call: call[0][0] != NEGATED, self._calls(named))
            for index, ((name, args, kwargs), training) in enumerate(itertools.islice(sized, int(self._smaller), None)):
                switch.asked.clear()
                if name in KINDS:
                    outcome = run(of_kind(model.eval(), name), args, kwargs, name, False)
                elif index < number:
                    model.train(training)
                    outcome = run(model, args, kwargs, f"switched, {name}", True, self.differentiable)
                else:
                    continue
                if min(switch.way, count - 1) not in switch.asked:
                    outcome.error = "not taken"
                ways[-1].append(outcome)
        return ways

    def _has_gradients(self, model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether the model is quick and takes inputs that need gradients (one that calls NumPy does not)."""
        trial, start = whole_copy(model, sharing=True)[0].eval(), time.thread_time()
        works = run(trial, args, kwargs, "with gradients", True, True).error is None
        return works and time.thread_time() - start < _CHEAP

    def _small_enough(self, model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Resize | None:
        """How the inputs shrink if eager is slow with them. If it is quick, this was its first trial."""
        trial = whole_copy(model, sharing=True)[0].eval()

        def taken(args: tuple, kwargs: dict[str, Any]) -> float | None:
            start = time.thread_time()
            outcome = run(trial, args, kwargs, TRIAL, False)
            seconds = time.thread_time() - start
            if outcome.error is not None:
                return math.inf if outcome.error == "TimeoutError" else None
            if not tried and seconds <= _SLOW:
                self._trial, self._took = outcome, seconds
            tried.append(seconds)
            return seconds

        tried: list[float] = []
        return small_enough(args, kwargs, taken, _SLOW)

    def _another_size(self, model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Resize | None:
        trial = whole_copy(model, sharing=True)[0].eval()
        taken, end = self._took if self._trial is not None else 0.0, math.inf

        def runs(args: tuple, kwargs: dict[str, Any]) -> bool:
            nonlocal taken
            start = time.thread_time()
            if start > end:
                return False
            outcome = run(trial, args, kwargs, "another size", False)
            taken = time.thread_time() - start
            self._trial = self._trial or outcome
            return outcome.error is None

        def slow() -> bool:
            return taken > _SLOW

        if self._trial is None and not runs(args, kwargs):
            return None
        self._quick = taken < _CHEAP and sum(each.numel() for each in model.parameters()) < _COPIED
        # A search for a smaller size pays off if the example is slow.
        end = time.thread_time() + max(_TRIALS, taken)
        # A larger input takes several times as long, and memory.
        self._slow = slow()
        smaller = self._slow or self._small is not None
        found = another_size(args, kwargs, runs, smaller, slow)
        self._smaller = smaller and found is not None
        if found is None and self._small is not None:
            found = another_size(args, kwargs, runs, False, slow)
        return found

    def _given(self, model: torch.nn.Module, namespace: dict[str, Any], seed: int, concrete: dict[str, Any]) -> Given:
        given = self.arguments(namespace, seed)
        assert given is not None
        given[1].pop("concrete_args", None)
        given = with_concrete(model, given, concrete)
        return given if self._small is None else self._small(given)


def with_concrete(model: torch.nn.Module, given: Given, concrete: Mapping[str, Any]) -> Given:
    """The arguments of an eager call with the concrete ones that it does not give itself, except open ones (`PH`)."""
    if not concrete:
        return given
    args, kwargs = given
    parameters = inspect.signature(model.forward).parameters.values()
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    fixed = {name: value for name, value in concrete.items() if not hasattr(value, "__torch_function__")}
    return args, {**{name: each for name, each in fixed.items() if name not in named[: len(args)]}, **kwargs}


def positional(model: torch.nn.Module, given: Given, concrete: dict[str, Any]) -> Any:
    """Example inputs as diagnose takes them: a tuple, or a dict when some are given by keyword."""
    args, kwargs = given
    if not kwargs:
        return args
    names = list(inspect.signature(model.forward).parameters)
    return {**dict(zip(names, args, strict=False)), **{k: v for k, v in kwargs.items() if k not in concrete}}
