"""Assumes constructions and inputs: for the classes of one module, one after the other."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..errors import brief
from ..scope import scope
from . import sandbox
from .abstract import is_abstract
from .construct import Construction
from .inputs import Inputs
from .reading import MOST_NODES, Reader
from .search import Budget, Found
from .slots import Slot, State, given, render
from .source import Sources

CONSTRUCT_SECONDS, INPUT_SECONDS, AGAIN_SECONDS = 1.0, 1.0, 0.7
AGAIN_TRIALS = 15


@dataclass(frozen=True)
class Argument:
    """One argument of an assumed call: its text, and its source."""

    name: str
    text: str
    how: str


@dataclass
class Assumption:
    """What was assumed for a class.

    ``status``: "constructed"; "abstract" for a class that leaves its forward to subclasses; "failed". ``tried`` is the
    construction that got furthest if none works. ``construct`` and ``inputs`` are texts for the module's names and
    those of ``worker.scope``; ``inputs`` is None if no arguments were found. ``ran`` says whether the eager forward ran
    with them, on meta or with data.
    """

    status: str
    construct: str | None = None
    arguments: list[Argument] = field(default_factory=list)
    inputs: str | None = None
    input_arguments: list[Argument] = field(default_factory=list)
    ran: bool = False
    on_meta: bool = True
    reason: str | None = None
    trials: int = 0
    error: BaseException | None = None
    module: Any = None
    tried: str = ""


class Assumer:
    """Assumes for the classes of one module.

    Args:
        namespace: the module of the classes; expressions are evaluated with its names.
        hints: by parameter's name, texts that calls elsewhere in the workspace pass for it, the best first.
    """

    def __init__(self, namespace: ModuleType | None, hints: Mapping[str, list[str]] | None = None) -> None:
        self.namespace = namespace
        self.hints = dict(hints or {})
        self.reader = Reader(Sources())

    def assume(self, kind: type) -> Assumption:
        """A construction of the class, and inputs for it."""
        if self.is_abstract(kind):
            return Assumption("abstract", reason="its forward is left to subclasses")
        self.reader.left = MOST_NODES
        construction = Construction(kind, self.namespace, self.reader, self.hints)
        found = construction.search(Budget(seconds=CONSTRUCT_SECONDS))
        if not found.outcome.ok:
            error = found.outcome.error
            return Assumption(
                "failed", reason=f"`{found.text}` raises {brief(error)}", trials=found.trials, error=error,
                tried=found.text,
            )  # fmt: skip
        inputs, fed = self._feed(construction, found, Budget(seconds=INPUT_SECONDS))
        trials = found.trials + fed.trials
        if not fed.outcome.ok and sandbox.is_about_inputs(fed.outcome.error):
            found, inputs, fed, more = self._again(construction, found, inputs, fed)
            trials += more
        return self._assumption(construction, found, inputs, fed, trials)

    def inputs(self, module: Any, meta: bool, numbers: Mapping[str, int]) -> str | None:
        """Arguments with which the forward of a module runs; ``numbers`` are those passed to its constructor."""
        self.reader.left = MOST_NODES

        def with_data() -> Any:
            """Arbitrary weights with data, since only whether forward runs matters."""
            import torch

            filled = copy.deepcopy(module).to_empty(device="cpu")
            with torch.no_grad():
                for tensor in itertools.chain(filled.parameters(), filled.buffers()):
                    tensor.fill_(0.01)
            return filled

        inputs = Inputs(module, meta, scope(self.namespace), self.reader, self.hints, with_data, numbers)
        found = inputs.search(Budget(seconds=INPUT_SECONDS))
        return found.text if found.outcome.ok else None

    def is_abstract(self, kind: type) -> bool:
        """Whether the class leaves its forward, or parts of it, to its subclasses."""
        return is_abstract(kind, self.reader.sources)

    def _feed(
        self, construction: Construction, found: Found, budget: Budget, like: tuple[Inputs, Found] | None = None
    ) -> tuple[Inputs, Found]:
        module, meta = found.outcome.value, found.outcome.detail

        def remake() -> Any:
            with sandbox.trial(2.0):
                return eval(found.text, construction.names)

        if meta:
            # Constants of the constructor that were created on the CPU.
            module.to("meta")
        self.reader.left = MOST_NODES
        numbers = construction.numbers(found.state)
        inputs = Inputs(module, meta, construction.names, self.reader, self.hints, remake, numbers)
        return inputs, inputs.search(budget, inputs.like(like[0], like[1].state) if like is not None else None)

    def _again(
        self, construction: Construction, found: Found, inputs: Inputs, fed: Found
    ) -> tuple[Found, Inputs, Found, int]:
        """Other constructions, if the first one runs with no arguments."""
        budget = Budget(trials=12, seconds=AGAIN_SECONDS)
        best = (found, inputs, fed)
        tried, trials = {found.text}, 0
        moves = construction.remedies.reconsidered(found.state, fed.outcome)
        while not budget.spent() and (move := next(moves, None)) is not None:
            state: State = {**best[0].state, **move}
            text = construction.text(state)
            if text in tried:
                continue
            tried.add(text)
            budget.trials -= 1
            outcome = construction.attempt(text, max(0.1, budget.left))
            trials += 1
            if not outcome.ok:
                continue
            other = Found(state, text, outcome, 1)
            its_inputs, its_fed = self._feed(construction, other, Budget(AGAIN_TRIALS, max(0.1, budget.left)), best[1:])
            trials += its_fed.trials
            if its_fed.outcome.ok:
                return other, its_inputs, its_fed, trials
            if its_fed.outcome.progress > best[2].outcome.progress:
                best = (other, its_inputs, its_fed)
                moves = construction.remedies.reconsidered(state, its_fed.outcome)
        return (*best, trials)

    def _assumption(
        self, construction: Construction, found: Found, inputs: Inputs, fed: Found, trials: int
    ) -> Assumption:
        built = {**construction.slots, **{n: s for n, s in construction.optional.items() if s in found.state}}
        result = Assumption("constructed", found.text, _arguments(built, found.state), trials=trials)
        result.ran = fed.outcome.ok
        result.on_meta = inputs.meta
        result.module = inputs.module
        error = fed.outcome.error
        if result.ran or not sandbox.is_about_inputs(error):
            named = {**inputs.slots, **{n: s for n, s in inputs.optional.items() if s in fed.state}}
            result.inputs, result.input_arguments = fed.text, _arguments(named, fed.state)
        if error is not None:
            result.reason = f"`{construction.head}` was called with ({fed.text}): {brief(error)}"
            result.error = error
        return result


def _arguments(slots: Mapping[str, Slot], state: State) -> list[Argument]:
    return [Argument(name, render(option, state), option.how) for name, option in given(slots, state)]
