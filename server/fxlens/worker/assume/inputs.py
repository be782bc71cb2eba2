"""Finds arguments with which a module's forward runs."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import alone
from . import blame, sandbox
from .feeding import Feeding
from .input_remedies import InputRemedies
from .places import NOTHING, Place, View
from .reading import Reader
from .search import Budget, Found, Outcome, search
from .slots import Slot, State, chosen, render, walk

_META_SECONDS, _SECONDS = 0.6, 1.5  # for one trial
MOST_PARAMETERS = 40_000_000
"""Larger modules are not constructed with data for a trial."""
MOST_ELEMENTS = 50_000_000
"""Arguments with more elements in total are not tried, since sizes from error messages can be arbitrary."""
_ABOUT_DATA = re.compile(
    r"meta|data-dependent|no data|item\(\)|NotImplementedError|fake tensor|numpy|storage|"
    r"nonzero|not on the expected device|same device",
    re.I,
)


class Inputs:
    """The search for the arguments of one module.

    ``remake`` constructs the module again with data, if meta tensors fail.
    """

    def __init__(
        self,
        module: Any,
        meta: bool,
        names: dict[str, Any],
        reader: Reader,
        hints: Mapping[str, list[str]],
        remake: Callable[[], Any],
        given: Mapping[str, int] | None = None,
    ) -> None:
        self.module = module
        self.meta = meta
        self.names = names
        self.reader = reader
        self.remake = remake
        self.feeding = Feeding(reader, names, hints, module, given)
        self.slots: dict[str, Slot] = {}
        self.optional: dict[str, Slot] = {}
        self.by_keyword: set[str] = set()
        self._fill()
        self.remedies = InputRemedies(self.feeding, self.slots, self.optional, self.module)

    def _fill(self) -> None:
        reading = self.reader.forward(self.module)
        try:
            parameters = inspect.signature(self.module.forward).parameters.values()
        except (TypeError, ValueError):
            return
        for each in parameters:
            note: Any = NOTHING if each.annotation is each.empty else each.annotation
            place = reading.parameters.get(each.name) if reading is not None else None
            if place is not None and place.annotation is not NOTHING:
                note = place.annotation
            view = View([place] if place is not None else [Place(each.name, note)])
            if each.kind is each.VAR_KEYWORD:
                continue
            if each.kind is each.VAR_POSITIONAL:
                if not self.slots:
                    self._fill_rest(each.name, view)
                continue
            default = NOTHING if each.default is each.empty else each.default
            slot = self.feeding.slot(each.name, view, (each.name,), note, default)
            if default is NOTHING:
                self.slots[each.name] = slot
                if each.kind is each.KEYWORD_ONLY:
                    self.by_keyword.add(each.name)
            else:
                self.optional[each.name] = slot
                self.by_keyword.add(each.name)

    def _fill_rest(self, name: str, view: View) -> None:
        """Fills ``*inputs`` if there are no other parameters: as many as the code reads."""
        indexes = [d + 1 for d in view.details("index") if isinstance(d, int) and d >= 0]
        count = max([*indexes, *(d for d in view.details("unpack") if isinstance(d, int)), 1])
        for index in range(count):
            self.slots[f"{name}[{index}]"] = self.feeding.slot(name, view.part("item", index), (f"{name}[{index}]",))

    def text(self, state: State) -> str:
        parts = []
        for name, slot in {**self.slots, **{n: s for n, s in self.optional.items() if s in state}}.items():
            value = render(chosen(slot, state), state)
            parts.append(f"{name}={value}" if name in self.by_keyword else value)
        return ", ".join(parts)

    def attempt(self, text: str, seconds: float) -> Outcome:
        """Runs forward on meta; with data after the first operation that needs it."""
        if self._elements(text) > MOST_ELEMENTS:
            return Outcome(error=MemoryError(f"more than {MOST_ELEMENTS} elements"))
        if self.meta:
            outcome = self._once(self.module, text, seconds, meta=True)
            if outcome.ok or not self._asks_for_data(outcome):
                return outcome
            real = self._real()
            if real is None:
                return outcome
            self.module, self.meta = real, False
        return self._once(self.module, text, seconds, meta=False)

    def _elements(self, text: str) -> int:
        """The number of elements of the tensors among the arguments; 0 if they cannot be made."""
        import torch

        def given(*args: Any, **kwargs: Any) -> list[Any]:
            return torch.utils._pytree.tree_leaves((args, kwargs))

        with contextlib.suppress(Exception), torch.device("meta"):
            made = eval(f"__fxlens_given__({text})", {**self.names, "__fxlens_given__": given})
            return sum(each.numel() for each in made if isinstance(each, torch.Tensor))
        return 0

    def _asks_for_data(self, outcome: Outcome) -> bool:
        error = outcome.error
        with contextlib.suppress(Exception):
            return isinstance(error, NotImplementedError) or bool(_ABOUT_DATA.search(f"{type(error).__name__} {error}"))
        return False

    def _real(self) -> Any:
        if sum(tensor.numel() for tensor in self.module.parameters()) > MOST_PARAMETERS:
            return None
        try:
            return self.remake()
        except (Exception, sandbox.OutOfTime):
            return None

    def _once(self, module: Any, text: str, seconds: float, meta: bool) -> Outcome:
        import torch

        finished = 0

        def count(*_: Any) -> None:
            nonlocal finished
            finished += 1

        code = compile(f"__fxlens_module__({text})", "<fxlens assumed>", "eval")
        scope = {**self.names, "__fxlens_module__": module}
        hook = torch.nn.modules.module.register_module_forward_hook(count)
        try:
            with (
                sandbox.trial(min(seconds, _META_SECONDS if meta else _SECONDS)),
                torch.device("meta") if meta else contextlib.nullcontext(),
                torch.no_grad(),
            ):
                torch.default_generator.manual_seed(0)  # torch.manual_seed formats the stack for each device type
                value = alone.run(module, lambda: eval(code, scope))
        except BaseException as error:  # sys.exit means that these arguments do not fit
            return Outcome(error=error, progress=self._progress(error, finished))
        finally:
            hook.remove()
        return Outcome(value=value, detail=meta)

    def _progress(self, error: BaseException, finished: int) -> tuple[Any, ...]:
        lines = tuple(step.line for step in blame.steps(self.reader.sources, error.__traceback__))
        return (*lines[:1], finished, *lines[1:])

    def like(self, other: Inputs, state: State) -> State:
        """Starts from the result for another construction of the same class."""
        mine = {slot.path: slot for slot in walk({**self.optional, **self.slots}, {})}
        found: State = {}
        for slot, option in state.items():
            if slot.path in mine and not option.parts and not option.items:
                found[mine[slot.path]] = mine[slot.path].add(option)
        return found

    def search(self, budget: Budget, first: State | None = None) -> Found:
        return search(
            [{}, first] if first else [{}],
            self.text,
            lambda text, state: self.attempt(text, max(0.1, budget.left)),
            self.remedies.moves,
            budget,
            lambda outcome: not outcome.ok and not sandbox.is_about_inputs(outcome.error),
        )
