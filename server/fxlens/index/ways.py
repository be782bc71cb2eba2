"""Parts of a script of which one or none is executed: what changes while each is read can be undone, and joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import values as v

Changes = dict[int, tuple[Any, Any]]
"""What has changed, by identity, each with a state: the names of a scope, the items of a list or dict, the attributes
of an object, and whether a list or dict is known as a whole."""
Choose = Callable[[Any, v.Value, v.Value], v.Value]
"""The value of a name or key that two ways give different ones."""


class Way:
    """One such part. ``before`` has the states from before it, of what it changes; what it makes itself (``born``
    later) is not undone."""

    def __init__(self, born: int) -> None:
        self.born = born
        self.before: Changes = {}
        self.after: Changes = {}

    def remember(self, owner: Any) -> bool:
        """Keeps the state of a value, or of a scope's names, that is about to change; False if it has that already."""
        things = [thing for thing in _things(owner) if id(thing) not in self.before]
        self.before.update({id(thing): (thing, _state(thing)) for thing in things})
        return bool(things)

    def undo(self) -> None:
        self.after = {key: (thing, _state(thing)) for key, (thing, _) in self.before.items()}
        apply(self.before)


def apply(changes: Changes) -> None:
    for thing, state in changes.values():
        if isinstance(thing, dict):
            thing.clear()
            thing.update(state)
        elif isinstance(thing, list):
            thing[:] = state
        else:
            thing.whole = state


def joined(first: Changes, second: Changes, choose: Choose) -> Changes:
    """What holds after either of two ways, which are undone: what only one gives, else the first's list."""
    found: Changes = {}
    for key, (thing, _) in {**first, **second}.items():
        one, other = (each[key][1] if key in each else _state(thing) for each in (first, second))
        if isinstance(thing, dict):
            made = {**other, **one}
            for name in one.keys() & other.keys():
                if one[name] is not other[name] and isinstance(one[name], v.Value) and isinstance(other[name], v.Value):
                    made[name] = choose(name, one[name], other[name])
        elif isinstance(thing, list):
            made = one or other
        else:
            made = one and other
        found[key] = (thing, made)
    return found


def repeat(way: Way) -> None:
    """After a loop of which not all iterations were read: what they change is unknown."""
    for thing, state in way.before.values():
        if isinstance(thing, v.Sequence):
            thing.whole = thing.whole and way.before[id(thing.items)][1] == thing.items  # both are remembered together
        elif isinstance(thing, v.Mapping):
            added = thing.items.keys() - way.before[id(thing.items)][1].keys()
            thing.whole = thing.whole and not (added and thing.kind == "dict")
        elif isinstance(thing, dict):
            for name, old in state.items():
                if _is_counted(old, thing.get(name)):
                    thing[name] = v.Hole(str(name))


def _is_counted(old: Any, new: Any) -> bool:
    """Whether iterations change a value so that it depends on their number."""
    data = (v.Const, v.Sequence, v.Mapping)
    if old is new or not isinstance(old, data) or not isinstance(new, data):
        return False
    return not (isinstance(old, v.Const) and isinstance(new, v.Const) and old.value == new.value)


def _things(owner: Any) -> tuple[Any, ...]:
    if isinstance(owner, (v.Sequence, v.Mapping)):
        return owner, owner.items
    if isinstance(owner, v.Object):
        return owner.fields, owner.changed
    return (owner,) if isinstance(owner, dict) else ()


def _state(thing: Any) -> Any:
    return thing.copy() if isinstance(thing, (dict, list)) else thing.whole
