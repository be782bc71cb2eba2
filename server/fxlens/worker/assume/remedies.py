"""Changes after an exception in a constructor: other kinds of values, agreeing numbers, missing attributes."""

from __future__ import annotations

import ast
import itertools
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import blame, on_disk
from .blame import Failure, Step, Suspect
from .conditions import flips
from .growing import Growing
from .names import habit, is_image_size
from .options import Options, literal
from .search import Growth, Move, Outcome
from .slots import LEFT_OUT, Option, Slot, State, chosen, walk
from .suspects import Suspects

_MOST_MODULES = 8
_WANTED: list[tuple[str, tuple[str, ...]]] = [
    (r"torch Tensor or None required|must be Tensor, not", ("tensor",)),
    (r"not callable|object is not an? (module|callable)", ("callable", "class", "module", "call")),
    (r"is not a Module subclass|has no attribute '(parameters|named_|children|eval|weight|"
    r"forward|train|modules)", ("module", "call")),
    (r"is not iterable|data must be a sequence|not subscriptable|has no len|must be a sequence|"
    r"argument after \*|to unpack|has no attribute "
     r"'(append|extend|index|__getitem__|copy)'", ("list", "tuple", "mapping")),
    (r"argument after \*\*|has no attribute '(items|keys|values|get)'|is not a mapping|string "
    r"indices must", ("mapping", "dict", "config")),
    (r"has no attribute '(lower|upper|startswith|split|strip|endswith|replace|format|find|rsplit|isdigit)'|"
     r"expected str|must be str|name must be string", ("str", "choice")),
    (r"cannot be interpreted as an integer|must be integers|must be (an )?int|integer is required|must be real number|"
     r"unsupported operand|not supported between|must be Number|found at position|can't multiply sequence|"
     r"must be tuple of ints|received an invalid combination|bad operand|should be a number|expected a number|"
     r"required argument is not|must be a number|should be \(?int", ("int", "float", "list", "tuple")),
    (r"has no attribute", ("config", "module", "call", "mapping")),
]  # fmt: skip


class Remedies:
    """Moves for a search over the slots of a constructor call."""

    def __init__(self, options: Options, slots: dict[str, Slot], target: type, optional: dict[str, Slot]) -> None:
        self.options = options
        self.slots = slots
        self.target = target
        self.optional = optional
        self._growing = Growing(options, slots, target, optional)
        self._suspects = Suspects(options.reader, target, slots, optional)

    def moves(self, state: State, outcome: Outcome) -> Iterator[Move]:
        if outcome.error is None:
            return
        failed = blame.failure(self.options.reader.sources, outcome.error)
        held: list[Suspect] = []
        blamed = self._suspects.of(blame.suspects(failed.path, failed.message, held), state)
        known = {slot for slot, _ in blamed}
        blamed += [(slot, each) for slot, each in self._suspects.named(held, state) if slot not in known]
        yield from self._on_disk(failed, state)
        yield from self._without(failed, state)
        if "Kernel size can't be greater than actual input size" in failed.message:
            yield from self._images(state)
        yield from self._growing.grown(failed, blamed, state)
        yield from self._growing.missing(failed, state)
        yield from self._one_of(failed, blamed, state)
        yield from self._numbers_of(failed, state)
        yield from self._solved(failed.path, blamed, state)
        yield from self._replaced(failed.message, [slot for slot, _ in blamed], state)
        if isinstance(
            failed.error, (AssertionError, ValueError, RuntimeError, IndexError, ZeroDivisionError, TypeError, KeyError)
        ):
            slots = [slot for slot, _ in blamed]
            yield from self._lengths(state, slots)
            yield from self._agreeing(slots, state)
        yield from self._any(blamed, state)

    def reconsidered(self, state: State, outcome: Outcome) -> Iterator[Move]:
        """Moves after a forward that runs with no arguments: the constructor's arguments may be wrong."""
        if outcome.error is None:
            return
        failed = blame.failure(self.options.reader.sources, outcome.error)
        held: list[Suspect] = []
        blame.suspects(failed.path, failed.message, held)
        blamed = self._suspects.kept(held, state)
        slots = [slot for slot, _ in blamed]
        yield from self._growing.grown(failed, blamed, state)
        yield from self._one_of(failed, blamed, state)
        about_sizes = re.search(r"size|shape|channel|dimension|broadcast|elements|divi|subscript", failed.message)
        if re.search(r"is invalid for input of size|can't divide", failed.message):
            yield from self._images(state)
        if re.search(r"length 0|\b0\b.*(?:size|shape|dimension)|\[\d+, 0", failed.message):
            for slot in self.optional.values():
                if chosen(slot, state).text in ("0", "0.0"):
                    for option in slot.options()[1:4]:
                        yield {slot: option}
        if about_sizes:
            yield from self._agreeing(slots, state)
            yield from self._agreeing([], state)
        yield from self._replaced(failed.message, slots, state)
        yield from self._solved(failed.path, blamed, state)
        yield from self._given(slots, state)
        if about_sizes:
            yield from self._told(failed.message, slots, state)
            yield from self._images(state)
            yield from self._lengths(state)
        for slot in walk(self.slots, state):
            if slot not in slots:
                for option in slot.options()[:4]:
                    if option is not chosen(slot, state):
                        yield self._together(slot, option, state)

    def _told(self, message: str, slots: list[Slot], state: State) -> Iterator[Move]:
        """Numbers in the message, and multiples of them, for the blamed sizes."""
        told = [int(each) for each in re.findall(r"\d+", message) if 2 < int(each) < 600]
        numbers = [slot for slot in slots if chosen(slot, state).text.isdigit()]
        for number in list(dict.fromkeys(told))[:3]:
            for slot in numbers[:3]:
                for value in (number, 2 * number, 8 * number):
                    if str(value) != chosen(slot, state).text:
                        yield {slot: slot.add(Option("int", "error", str(value)))}

    def _images(self, state: State) -> Iterator[Move]:
        """Image sizes that are divisible by windows and patches of other sizes."""
        sizes = [slot for slot in walk(self.slots, state) if is_image_size(slot.name)]
        if {"h", "w"} <= self.slots.keys():
            sizes += [self.slots["h"], self.slots["w"]]
        for text in ("56", "224", "32", "48"):
            if sizes:
                yield {
                    slot: slot.add(Option("int", "error", text)) for slot in sizes if chosen(slot, state).text.isdigit()
                }

    def _on_disk(self, failed: Failure, state: State) -> Iterator[Move]:
        """For a file that could not be opened: one elsewhere in the repository."""
        name = failed.error.filename if isinstance(failed.error, FileNotFoundError) else None
        if not isinstance(name, str):
            return
        folder = os.path.dirname(getattr(sys.modules.get(self.target.__module__), "__file__", None) or "")
        for slot in walk({**self.optional, **self.slots}, state):
            if chosen(slot, state).text == repr(name):
                for path in on_disk.like(name, folder):
                    yield {slot: slot.add(Option("str", "error", repr(path)))}

    def _without(self, failed: Failure, state: State) -> Iterator[Move]:
        """For a constructor that passes its keywords on and also sets one itself: leave that one out."""
        match = re.search(r"got multiple values for (?:keyword )?argument '(\w+)'", failed.message)
        slot = self.slots.get(match[1]) if match is not None else None
        if slot is not None and isinstance(failed.error, TypeError):
            yield {slot: slot.add(Option(LEFT_OUT, "error", LEFT_OUT))}

    def _one_of(self, failed: Failure, blamed: list[tuple[Slot, Suspect]], state: State) -> Iterator[Move]:
        """For a failed lookup: one of the existing keys."""
        if isinstance(failed.error, AttributeError):
            yield from self._named(failed.error, blamed, state)
        if isinstance(failed.error, ModuleNotFoundError):
            yield from self._modules(str(failed.error.name), state)
        number = re.search(r"invalid literal for int|could not convert string to float", failed.message)
        texts = [slot for slot, _ in blamed if chosen(slot, state).text[:1] == "'"]
        for slot in texts[:3] if number else ():  # `[int(each) for each in layers.split("-")]`
            yield self._together(slot, slot.add(Option("str", "error", "'16'")), state)
        if not failed.path or not (
            isinstance(failed.error, KeyError) or "is not in list" in failed.message or "not in tuple" in failed.message
        ):
            return
        there: list[Any] = []
        for node in ast.walk(failed.path[-1].node):
            value = _evaluated(node, failed.path[-1])
            if isinstance(value, (dict, list, tuple)):
                there += [each for each in list(value)[:8] if type(each) in (str, int)]
        yield from self._put_together(str(failed.error.args[0]) if failed.error.args else "", there, state)
        for slot, _ in blamed[:3]:
            if chosen(slot, state).kind in ("list", "tuple", "dict", "config", "call", "module"):
                continue
            for each in there[:6]:
                text = literal(each)
                if text is not None and text != chosen(slot, state).text:
                    yield self._together(
                        slot, slot.add(Option("str" if isinstance(each, str) else "int", "error", text)), state
                    )

    def _put_together(self, key: str, there: list[Any], state: State) -> Iterator[Move]:
        """For a missing key made of numbers, ``urls[f"r{blocks}f{width}"]``: the numbers of an existing one."""
        plain = re.sub(r"\d+", "0", key)
        for each in there if plain != key else ():
            if isinstance(each, str) and re.sub(r"\d+", "0", each) == plain:
                pairs = zip(re.findall(r"\d+", key), re.findall(r"\d+", each), strict=True)
                wanted = {old: new for old, new in pairs if old != new}
                slots = [slot for slot in walk(self.slots, state) if chosen(slot, state).text in wanted]
                yield {slot: slot.add(Option("int", "error", wanted[chosen(slot, state).text])) for slot in slots}

    def _modules(self, name: str, state: State) -> Iterator[Move]:
        """For a string that names a module, ``import_module("models." + name)``: an existing one."""
        package, _, last = name.rpartition(".")
        there = pkgutil.iter_modules(getattr(sys.modules.get(package), "__path__", ()))
        names = [each.name for each in there if each.name[:1] != "_"][:_MOST_MODULES]
        for slot in walk(self.slots, state):
            if chosen(slot, state).text == repr(last):
                yield from ({slot: slot.add(Option("str", "error", repr(each)))} for each in names)

    def _named(self, error: AttributeError, blamed: list[tuple[Slot, Suspect]], state: State) -> Iterator[Move]:
        """For a string that names a class, ``getattr(decoders, kind)``, or part of a method's name, ``getattr(self,
        f"{kind}_loss")``: an existing one."""
        owner, wanted = error.obj, str(error.name)
        for slot, _ in blamed[:3]:
            text = chosen(slot, state).text
            part = text[1:-1] if text[:1] == "'" and text[-1:] == "'" else ""
            before, found, after = wanted.partition(part) if part else ("", "", "")
            if not found or (isinstance(owner, ModuleType) is bool(before or after)):
                continue
            for name in _names_in(owner):
                middle = name[len(before) : len(name) - len(after)]
                if name == f"{before}{middle}{after}" and middle and middle != part:
                    yield self._together(slot, slot.add(Option("str", "error", repr(middle))), state)

    def _together(self, slot: Slot, option: Option, state: State) -> Move:
        """The same option for all items of the list that contains the slot, or its parent."""
        move, place = {slot: option}, _without_indexes(slot.path)
        for twin in walk(self.slots, state):
            if twin is slot or _without_indexes(twin.path) != place:
                continue
            same = next((each for each in twin.options() if each.signature == option.signature), None)
            same = same or next((each for each in twin.options() if each.kind == option.kind), None)
            if option.text and not option.parts and not option.items:
                same = twin.add(option)
            if same is not None:
                move[twin] = same
        return move

    def _given(self, blamed: list[Slot], state: State) -> Iterator[Move]:
        """Everything that is None or empty so far at once, since some arguments must be given together."""
        empty = [
            slot
            for slot in [*blamed, *self.optional.values()]
            if chosen(slot, state).text in ("None", "[]", "()", "''")
        ]
        for group in ([slot for slot in blamed if slot in empty], empty):
            move: Move = {}
            for slot in group:
                option = next((each for each in slot.options() if each.text not in ("None", "[]", "()", "''")), None)
                if option is not None:
                    move[slot] = option
            if len(move) > 1:
                yield move

    def _numbers_of(self, failed: Failure, state: State) -> Iterator[Move]:
        """All numbers of an argument's constructor that computes with None, since some go together: ``Fiber(degrees=4,
        channels=16)``; the same for all arguments of this class."""
        if not isinstance(failed.error, TypeError) or "NoneType" not in failed.message:
            return
        kinds = {type(step.frame.f_locals.get("self")).__name__ for step in failed.path}
        move = Growth()
        for slot in walk(self.slots, state):
            option = chosen(slot, state)
            if option.kind == "call" and option.head.rpartition(".")[2] in kinds:
                for name, each in option.known.items():
                    usual = habit(name)
                    if each not in state and each.default is None and usual is not None and usual.kind == "int":
                        move[each] = each.add(Option("int", "error", usual.values[0]))
        if move:
            yield move

    # Flipping the result of a test

    def _solved(self, path: list[Step], blamed: list[tuple[Slot, Suspect]], state: State) -> Iterator[Move]:
        """Values under which an assert holds, or under which a raise is not reached."""
        for step in reversed(path[-3:]):
            statement = blame.statement_of(step)
            if isinstance(statement, ast.Assert):
                tests = [(statement.test, True)]
            elif isinstance(statement, ast.Raise):
                tests = [(test, not answer) for test, answer in blame.conditions(step.function, statement)]
            else:
                continue
            for test, wanted in tests[:8]:
                for chain, value in flips(test, wanted, step):
                    held: list[Suspect] = []
                    inner = blame.suspects([*path[: path.index(step)], _at(step, chain)], "", held)
                    for slot, suspect in [*self._suspects.of(inner, state), *self._suspects.kept(held, state)]:
                        text = literal(value)
                        if value is True and chosen(slot, state).text == "None":
                            # Any true value will do: the parameter's usual value rather than a flag.
                            usual = [each for each in slot.options()[:4] if each.text not in ("None", "False", "0")]
                            yield from ({slot: each} for each in usual)
                        if suspect.direct and text is not None:
                            yield {slot: slot.add(Option(type(value).__name__, "error", text))}
                        elif text is not None and isinstance(value, (int, str)):
                            yield from self._near(slot, value, state)

    def _near(self, slot: Slot, value: Any, state: State) -> Iterator[Move]:
        for option in slot.options():
            if option is not chosen(slot, state) and option.kind == type(value).__name__:
                yield {slot: option}

    # Other values for the slots that are blamed

    def _replaced(self, message: str, blamed: list[Slot], state: State) -> Iterator[Move]:
        wanted = next((kinds for pattern, kinds in _WANTED if re.search(pattern, message)), ())
        named = [slot for slot in blamed if re.search(rf"\b{re.escape(slot.name)}\b", message)]
        ordered = list(dict.fromkeys([*named, *blamed]))
        if wanted:
            for slot in ordered[:6]:
                current = chosen(slot, state)
                for option in slot.options():
                    if option.kind in wanted and (option.kind != current.kind or len(ordered) == 1):
                        yield self._together(slot, option, state)
                yield from self._made(slot, wanted)
        for slot in ordered[:6]:
            current = chosen(slot, state)
            for option in slot.options()[:5]:
                if option is not current:
                    yield self._together(slot, option, state)
        yield from self._given(blamed, state)

    def _made(self, slot: Slot, wanted: tuple[str, ...]) -> Iterator[Move]:
        """Options of a kind that only the error suggests."""
        for kind in wanted[:3]:
            if not any(option.kind == kind for option in slot.options()):
                for option in self.options.of_kind(kind, "error", slot)[:3]:
                    yield {slot: slot.add(option)}

    def _lengths(self, state: State, blamed: list[Slot] | None = None) -> Iterator[Move]:
        """Shorten the blamed lists one by one; then give all lists equal lengths, then longer ones."""
        lists = [slot for slot in walk(self.slots, state) if chosen(slot, state).kind in ("list", "tuple")]
        for slot in [each for each in blamed or () if each in lists and len(chosen(each, state).items) > 1]:
            yield {slot: self._resized(slot, chosen(slot, state), 1)}
        for count in (4, 3, 5, 2, 1, 6) if lists else ():
            move: Move = {}
            for slot in lists:
                current = chosen(slot, state)
                longer = next((o for o in slot.options() if o.kind == current.kind and len(o.items) == count), None)
                if longer is None and current.items:
                    longer = self._resized(slot, current, count)
                if longer is not None and longer is not current:
                    move[slot] = longer
            if move:
                yield move
                for slot, option in move.items() if len(move) > 1 else ():
                    yield {slot: option}

    def _resized(self, slot: Slot, option: Option, count: int) -> Option:
        items = list(option.items[:count])
        while len(items) < count:
            last = option.items[-1]
            items.append(self.options.slot(last.name, last.view, (*slot.path, str(len(items))), last.annotation))
        return Option(option.kind, "error", items=items)

    def _agreeing(self, blamed: list[Slot], state: State) -> Iterator[Move]:
        """Numbers made equal, or divisors of each other, for sizes that must agree."""
        numbers = [slot for slot in walk(self.slots, state) if chosen(slot, state).text.isdigit()]
        numbers = [slot for slot in numbers if len(slot.options()) > 1]  # others are not read
        sizes = list(dict.fromkeys(chosen(slot, state).text for slot in numbers if int(chosen(slot, state).text) >= 8))
        chosen_ones = [slot for slot in numbers if slot in blamed] or numbers
        for text in sizes[:3]:
            move = {
                slot: slot.add(Option("int", "error", text))
                for slot in chosen_ones
                if int(chosen(slot, state).text) >= 8 and chosen(slot, state).text != text
            }
            if len(move) > 1:
                yield move
            for slot, option in move.items():
                yield {slot: option}
        for slot in blamed[:4]:
            if chosen(slot, state).text.isdigit():
                for value in (1, 2, 4, 8, 16, 64, 128, 256, 512, 224):
                    if str(value) != chosen(slot, state).text:
                        yield {slot: slot.add(Option("int", "error", str(value)))}

    def _any(self, blamed: list[tuple[Slot, Suspect]], state: State) -> Iterator[Move]:
        """Every other option, blamed slots first, one at a time."""
        slots = list(dict.fromkeys([*(slot for slot, _ in blamed), *walk(self.slots, state)]))
        rows = [[option for option in slot.options() if option is not chosen(slot, state)] for slot in slots]
        for row in itertools.zip_longest(*rows):
            for slot, option in zip(slots, row, strict=True):
                if option is not None:
                    yield {slot: option}


def _names_in(owner: Any) -> list[str]:
    """The module classes in a module, or the methods of an object's class."""
    import torch

    if isinstance(owner, ModuleType):
        return [
            name
            for name, each in vars(owner).items()
            if isinstance(each, type) and issubclass(each, torch.nn.Module) and not each.__module__.startswith("torch.")
        ][:6]
    return [name for name, each in vars(type(owner)).items() if callable(each) and name[:1] != "_"]


def _without_indexes(path: tuple[str, ...]) -> list[str]:
    return ["*" if each.isdigit() else each for each in path]


def _evaluated(node: ast.AST, step: Step) -> Any:
    chain = blame.chain_of(node)
    if chain is None and isinstance(node, ast.Subscript) and (owner := blame.chain_of(node.value)) is not None:
        value = blame.value_of(step, owner)
        return next(iter(value.values()), None) if isinstance(value, dict) else None
    return blame.value_of(step, chain) if chain is not None else None


def _at(step: Step, chain: blame.Chain) -> Step:
    """The step as if only this name had raised."""
    node: ast.expr = ast.Name(chain[0], ast.Load())
    for name in chain[1:]:
        node = ast.Attribute(node, name, ast.Load())
    ast.copy_location(node, step.node)
    ast.fix_missing_locations(node)
    return Step(step.code, step.frame, step.function, node, step.line)
