"""The slots of a call that an exception is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import blame
from .reading import Reader
from .slots import Option, Slot, State, chosen, walk
from .source import plain


class Suspects:
    """Finds slots from the result of `blame`, for a call of ``target``."""

    def __init__(self, reader: Reader, target: type, slots: dict[str, Slot], optional: dict[str, Slot]) -> None:
        self._reader = reader
        self._target = target
        self._slots = slots
        self._optional = optional

    def of(self, suspects: list[blame.Suspect], state: State) -> list[tuple[Slot, blame.Suspect]]:
        """The slots of parameters, with their items."""
        found: dict[Slot, blame.Suspect] = {}
        for suspect in suspects:
            for holder in self._holders(suspect.owner, state):
                for slot, same in self._descend(holder, suspect.chain, state):
                    found.setdefault(slot, replace(suspect, direct=suspect.direct and same))
        for slot, suspect in list(found.items()):
            for item in chosen(slot, state).items:
                found.setdefault(item, suspect)
        return list(found.items())

    def _holders(self, owner: Any, state: State) -> list[dict[str, Slot]]:
        if isinstance(owner, type) and issubclass(owner, self._target):
            return [{**self._optional, **self._slots}]
        found = []
        name = getattr(owner, "__name__", "\0")
        for slot in walk(self._slots, state):
            option = chosen(slot, state)
            if option.kind == "call" and option.head.rpartition(".")[2] == name:
                found.append({**option.known, **option.parts})
        return found or [{**self._optional, **self._slots}]

    def _descend(self, slots: dict[str, Slot], chain: blame.Chain, state: State) -> list[tuple[Slot, bool]]:
        """The slots at a chain of names, and whether they are its value itself."""
        slot = slots.get(chain[0])
        for name in chain[1:]:
            if slot is None:
                return []
            option = chosen(slot, state)
            inner = {**option.known, **option.parts}
            inner.update({str(index): item for index, item in enumerate(option.items)})
            following = inner.get(name)
            if following is None:
                return [*self._made_from(option, name, inner), (slot, True)]
            slot = following
        return [(slot, True)] if slot is not None else []

    def _made_from(self, option: Option, name: str, slots: dict[str, Slot]) -> list[tuple[Slot, bool]]:
        """The arguments of a call that an attribute of its result is made from."""
        function = plain(getattr(option.makes, "__init__", None))
        node = self._reader.sources.of_function(function) if function is not None else None
        made = blame.origins(node, ("self", name)) if node is not None else []
        return [(slots[chain[0]], same) for chain, same in made if len(chain) == 1 and chain[0] in slots]

    def named(self, held: list[blame.Suspect], state: State) -> list[tuple[Slot, blame.Suspect]]:
        """Values of configurations under the names that were read from ``self`` on the way."""
        read = {suspect.chain[-1]: suspect for suspect in held if len(suspect.chain) > 1}
        inner = [slot for slot in walk(self._slots, state) if len(slot.path) > 1 and slot.path[-1] in read]
        return [(slot, replace(read[slot.path[-1]], direct=False)) for slot in inner]

    def kept(self, held: list[blame.Suspect], state: State) -> list[tuple[Slot, blame.Suspect]]:
        """The slots whose values a module stores in the blamed attributes, the nearest first."""
        found: dict[Slot, tuple[int, blame.Suspect]] = {}
        everything = list(walk({**self._optional, **self._slots}, state))
        for suspect in held:
            place = self._reader.stored(suspect.owner, suspect.chain[0])
            for slot in everything if place is not None else ():
                far = slot.view.distance.get(id(place))
                if far is not None and slot not in found:
                    direct = suspect.direct and far <= 2
                    found[slot] = (far, blame.Suspect(suspect.owner, suspect.chain, direct))
        return [(slot, suspect) for slot, (_, suspect) in sorted(found.items(), key=lambda pair: pair[1][0])]
