"""One text of a fix, before or after: its model, its report, and what it computes. Runs user code: for the worker."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from fxlib.diagnosis.fixes import read_file
from fxlib.diagnosis.fixes.compare import Outcome, seed_all, state_of, take_weights
from fxlib.diagnosis.fixes.example import Example, Given, Lacking, nothing, positional
from fxlib.diagnosis.fixes.loaded import Loaded
from fxlib.diagnosis.fixes.reload import forget, load_file, registrations_dropped
from fxlib.diagnosis.fixes.same_code import runs_the_same
from fxlib.diagnosis.fixes.verdict import Verdict
from fxlib.ir.copies import whole_copy

__all__ = ["Load", "Read", "Side", "Sides", "Tried"]

Load = Callable[[str, dict[str, str]], Any]
Read = Callable[[str], "str | None"]

_LARGEST = 150_000_000  # parameters; two copies of a larger model need too much memory

_edited: set[str] = set()
"""Files whose lines in `linecache` are those of the last text that any checker of this process has executed."""


@dataclass
class Side:
    """One of the two texts: its model, its report, and what it computed. ``tried`` has the results of edited texts."""

    model: Any
    report: Any
    outcomes: list[Outcome]
    state: dict[str, Any]
    weights: dict[str, torch.Tensor]
    tried: dict[Any, Tried] = field(default_factory=dict)


@dataclass(frozen=True)
class Tried:
    """An edited text: its findings, and the part of the verdict that is the same for every finding. ``compared`` says
    whether eager was run."""

    findings: list[Any]
    verdict: Verdict
    compared: bool


class Sides:
    """Runs the texts of one target, the one before once; see `Checker` for the arguments."""

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
        lacking: Lacking = nothing,
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
        self._before: Side | None = None
        # Whether nothing can be compared; then a large model gets real weights only if the code needs them.
        self._bare = inputs is None
        self._numbers = False

    @property
    def before(self) -> Side:
        if self._before is None:
            with registrations_dropped():
                self._before = self._side({}, {})
        return self._before

    def _side(
        self,
        texts: dict[str, str],
        settings: dict[str, Any],
        compares: Callable[[Any], bool] = lambda report: True,
        reported: bool = True,
        kept: bool = False,
    ) -> Side:
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
                traced = model if self._bare else whole_copy(model, sharing=True)[0]
                report = self._report(traced, given, concrete, self._leaves(settings))
                take_weights(model, weights)
            before = self._before
            if compares(report) and not self._bare:
                if before is not None and (kept or self._runs_as_before(texts, settings)):
                    return Side(model, report, before.outcomes, before.state, weights)
                like = None if before is None else before.outcomes
                outcomes = self.example.runs(model, namespace, concrete, like, weights)
            return Side(model, report, outcomes, state_of(model), weights)

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
        known = Loaded()
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


def _is_large(model: torch.nn.Module) -> bool:
    # Parameters of a lazy layer have no size before its first call.
    return sum(each.numel() for each in model.parameters() if not is_lazy(each)) > _LARGEST
