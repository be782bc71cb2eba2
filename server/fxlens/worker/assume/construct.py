"""Assumes the arguments of a module's constructor."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from .. import alone, fallbacks, hub, tokenizers
from ..errors import of_property, text_of
from ..scope import scope, spelled
from . import annotated, blame, sandbox
from .names import habit, is_image_size
from .options import Options
from .places import NOTHING, Place, View
from .reading import Reader
from .remedies import Remedies
from .search import Budget, Found, Outcome, search
from .slots import Option, Slot, State, chosen, given, render, walk

_SECONDS, _LONGER = 2.0, 5.0  # for one trial, and for one longer trial after all others
_MOST_LACKS = 3
_ABOUT_META = re.compile(
    r"meta|device|data-dependent|no data|numpy|storage|is not implemented|item\(\)|pinned|set_data", re.I
)


class Construction:
    """The search for one class: its slots, and the result."""

    def __init__(
        self, kind: type, namespace: ModuleType | None, reader: Reader, hints: Mapping[str, list[str]]
    ) -> None:
        self.kind = kind
        self.reader = reader
        self.names = scope(namespace)
        self.options = Options(reader, self.names, hints, kind)
        self.head = spelled(kind, self.names)
        self.slots: dict[str, Slot] = {}
        self.optional: dict[str, Slot] = {}
        self._fill()
        self.remedies = Remedies(self.options, self.slots, kind, self.optional)

    def _fill(self) -> None:
        readings = [
            self.reader.constructor(each)
            for each in self.kind.__mro__
            if self.reader.is_own(each.__init__ if each is self.kind else vars(each).get("__init__"))  # type: ignore[misc]
        ]
        above = [each for each in self.kind.__mro__ if not each.__module__.startswith("torch.") and each is not object]
        told = [text for each in above for text in (each.__doc__, getattr(vars(each).get("__init__"), "__doc__", ""))]
        documents = "\n".join(filter(None, told))
        for name, (note, default) in annotated.fields(self.kind).items():
            places = [each.parameters[name] for each in readings if each is not None and name in each.parameters][:1]
            if places and places[0].annotation is not NOTHING:
                note = places[0].annotation
            if note is NOTHING and name == "config":
                note = getattr(self.kind, "config_class", None) or NOTHING  # as models of transformers say it
            if places and (kind := annotated.documented(documents, name)):
                places[0].use("documented", kind)
            slot = self.options.slot(name, View(places or [Place(name, note)]), (name,), note, default)
            if default is NOTHING:
                self.slots[name] = slot
            else:
                self.optional[name] = slot
        for name in self.options.hints if self._takes_keywords() else ():
            if name not in self.slots and name not in self.optional:  # a call in the workspace gives it to be passed on
                self.slots[name] = self.options.slot(name, View([Place(name, NOTHING)]), (name,), NOTHING)

    def _takes_keywords(self) -> bool:
        try:
            parameters = inspect.signature(self.kind).parameters
        except (TypeError, ValueError):
            return False
        return any(each.kind is each.VAR_KEYWORD for each in parameters.values())

    def numbers(self, state: State) -> dict[str, int]:
        """Integers by name that the expression passes, or leaves at their default."""
        found: dict[str, int] = {}
        for slot in [*walk(self.optional, state), *walk(self.slots, state)]:
            option = chosen(slot, state)
            first = chosen(option.items[0], state) if option.items else option
            if first.text.isdigit():
                found[slot.name] = int(first.text)
        return found

    def text(self, state: State) -> str:
        slots = {**self.slots, **{name: slot for name, slot in self.optional.items() if slot in state}}
        positional = self._positional()
        values = [(name, render(option, state)) for name, option in given(slots, state)]
        inner = [value if name in positional else f"{name}={value}" for name, value in values]
        return f"{self.head}({', '.join(inner)})"

    def _positional(self) -> set[str]:
        try:
            parameters = inspect.signature(self.kind).parameters
        except (TypeError, ValueError):
            return set()
        return {name for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY}

    def start(self) -> State:
        """Initial options for required parameters; flags like ``pretrained=True`` turned off, image sizes divisible by
        the default windows and patches."""
        state: State = {}
        parts = [
            slot.default
            for name, slot in self.optional.items()
            if re.search("window|patch", name) and type(slot.default) is int and 1 < slot.default < 64
        ]
        for slot in walk(self.slots, {}) if parts else ():
            if is_image_size(slot.name) and slot.options()[0].text.isdigit():
                fits = [size for size in (64, 56, 32, 48, 224, 256) if all(size % each == 0 for each in parts)]
                if fits and slot.options()[0].kind == "int":
                    state[slot] = slot.add(Option("int", "default", str(fits[0])))
        for name, slot in self.optional.items():
            guess = habit(name)
            if slot.default is True and guess is not None and guess.kind == "bool" and "pretrained" in name:
                option = next(each for each in slot.options() if each.text == "False")
                state[slot] = option
        return state

    def attempt(self, text: str, seconds: float) -> Outcome:
        """Constructs on meta; with data if meta fails."""
        code = compile(text, "<fxlens assumed>", "eval")
        outcome = self._once(code, seconds, meta=True)
        if not outcome.ok and "item()" in _told(outcome.error):
            again = self._once(code, seconds, meta=True, counting=True)
            if again.ok or again.progress > outcome.progress:
                outcome = again
        if not outcome.ok and "copy out of meta" in _told(outcome.error):
            again = self._once(code, seconds, meta=True, around=alone.alone())
            outcome = again if again.ok else outcome
        if not outcome.ok and _ABOUT_META.search(_told(outcome.error)):
            again = self._once(code, seconds, meta=False)
            ended = isinstance(again.error, sandbox.OutOfTime) or alone.is_about(again.error)
            if again.ok or again.progress >= outcome.progress or ended:
                outcome = again
        return self._without_what_it_lacks(code, seconds, outcome)

    def _without_what_it_lacks(self, code: Any, seconds: float, first: Outcome) -> Outcome:
        """Without weights, a device, a group of processes, a tokenizer, a package: one after the other, as the
        constructor needs them. Unchanged if that does not help."""
        outcome, lacking = first, list[BaseException]()
        while outcome.error is not None and len(lacking) < _MOST_LACKS and _without(outcome.error) is not None:
            lacking.append(outcome.error)
            outcome = self._once(code, seconds, meta=True, lacking=lacking)
            if not outcome.ok and _ABOUT_META.search(_told(outcome.error)):
                outcome = self._once(code, seconds, meta=False, lacking=lacking)
        further = outcome.ok or outcome.progress > first.progress or alone.is_about(first.error)
        return outcome if further else first

    def _once(
        self,
        code: Any,
        seconds: float,
        meta: bool,
        counting: bool = False,
        around: contextlib.AbstractContextManager[None] | None = None,
        lacking: Sequence[BaseException] = (),
    ) -> Outcome:
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(sandbox.trial(seconds))
                for context in (around, *map(_without, lacking)):
                    if context is not None:
                        stack.enter_context(context)
                if meta:
                    stack.enter_context(sandbox.on_meta(counting))
                try:
                    value = eval(code, self.names)
                except AttributeError as error:
                    raise of_property(error) from None
        except BaseException as error:  # sys.exit means that these arguments do not fit
            return Outcome(error=error, progress=self.progress(error))
        if not isinstance(value, self.kind):
            return Outcome(error=TypeError(f"{self.head} gives {type(value).__name__}"))
        return Outcome(value=value, detail=meta)

    def progress(self, error: BaseException) -> tuple[Any, ...]:
        """The lines reached; those in the class's own constructor count more than those in constructors of its
        arguments."""
        path = blame.steps(self.reader.sources, error.__traceback__)
        entered = any(isinstance(step.frame.f_locals.get("self"), self.kind) for step in path)
        # All arguments of a call were evaluated, on whatever lines.
        lines = [getattr(step.node, "end_lineno", None) or step.line for step in path[:-1]]
        lines += [step.line for step in path[-1:]]
        asserted = blame.statement_of(path[-1]) if path and isinstance(error, AssertionError) else None
        if isinstance(asserted, ast.Assert):
            lines[-1] = asserted.end_lineno or lines[-1]  # all of its lines ran
        return (entered, *lines) if path else ()

    def search(self, budget: Budget) -> Found:
        """Searches a construction; if the best attempt was only slow, it gets more time."""
        found = search(
            [self.start()],
            self.text,
            lambda text, state: self.attempt(text, min(max(0.1, budget.left), _SECONDS)),
            self.remedies.moves,
            budget,
        )
        if isinstance(found.outcome.error, sandbox.OutOfTime):
            outcome = self.attempt(found.text, _LONGER)
            found = replace(found, outcome=outcome) if outcome.ok else found
        return found


def _without(error: BaseException) -> contextlib.AbstractContextManager[None] | None:
    """The context in which a constructor works without something missing, chosen by its exception."""
    if (loader := sandbox.loading(error)) is not None:
        return sandbox.without_loading(loader)
    if hub.is_about(error):
        return hub.without()
    if alone.is_about(error):
        return alone.alone(error)
    if (tokenizer := tokenizers.behind(error)) is not None:
        return tokenizers.without(tokenizer)
    absent = fallbacks.behind(error)
    return None if absent is None else fallbacks.standing_in(absent)


def _told(error: BaseException | None) -> str:
    try:
        return f"{type(error).__name__} {text_of(error)}"
    except Exception:
        return type(error).__name__
