"""Spaces of gym and gymnasium: a policy's observations and actions, as constructor arguments and as tensors."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from ..scope import spelled
from ..stand_in_spaces import GYMS
from .annotated import is_space, members
from .names import snake
from .places import View
from .slots import Option, Slot
from .tensors import BATCH, Spec

_NAMED = re.compile(r"(\w+_)?(obs|observations?|ob|states?|act|actions?|ac)_spaces?")
_OBSERVED = re.compile(r"(\w+_)?(obs|observations?|ob|states?|inputs?|x|features)")
_DONE = re.compile(r"(\w+_)?(acts?|actions?|ac|u)")
_BOX, _FRAMES = "-1.0, 1.0, (64,)", "0, 255, (4, 84, 84), 'uint8'"


def is_named(name: str) -> bool:
    """Whether a parameter's name is that of a space."""
    return bool(_NAMED.fullmatch(snake(name)))


def package() -> Any:
    """The module with the classes of spaces that the code has imported; None if there is none."""
    return next((found for each in GYMS if (found := sys.modules.get(f"{each}.spaces")) is not None), None)


def options(slot: Slot, how: str, names: Mapping[str, Any]) -> list[Option]:
    """Spaces for a parameter, those that its annotation and the code require first."""
    asked = [each for each in members(slot.annotation) if isinstance(each, type) and is_space(each)]
    module = sys.modules.get(f"{asked[0].__module__.split('.')[0]}.spaces") if asked else package()
    if module is None:
        return []

    def made(kind: str, arguments: str) -> str:
        return f"{spelled(getattr(module, kind), dict(names))}({arguments})"

    several = f"{{'image': {made('Box', _FRAMES)}, 'state': {made('Box', _BOX)}}}"
    rows = {"Box": [_BOX, _FRAMES], "Dict": [several], "Discrete": ["8"]}
    if re.search(r"(^|_)(act|actions?|ac)_", snake(slot.name)):
        rows = {"Box": ["-1.0, 1.0, (4,)"], "Discrete": ["4"], "MultiDiscrete": ["[4, 4]"], "MultiBinary": ["4"]}
    tested = [each.__name__ for each in slot.view.details("isinstance") if isinstance(each, type)]
    exact = [each.__name__ for each in asked if each.__name__ in rows]
    order = exact or sorted(rows, key=lambda kind: kind not in tested)
    return [Option("space", how, made(kind, text)) for kind in order for text in rows[kind]]


def fed(module: Any, name: str) -> Option | None:
    """A forward's argument of this name for a module with spaces: a batch of observations or actions."""
    wanted = "observation" if _OBSERVED.fullmatch(name) else "action" if _DONE.fullmatch(name) else ""
    held = vars(module)
    for key in held if wanted else ():
        if is_named(key) and (wanted == "observation") == bool(re.search("obs|ob_|state", key)):
            return _batch(held[key])
    return None


def _batch(space: Any) -> Option | None:
    if not is_space(type(space)):
        return None
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        parts = {key: _batch(each) for key, each in inner.items()}
        made = {key: _slot(key, each) for key, each in parts.items() if each is not None}
        return Option("dict", "use", parts=made) if len(made) == len(parts) else None
    if getattr(space, "shape", None) is None:
        return None
    whole = space.shape == () and hasattr(space, "n")
    spec = Spec((BATCH,), "long", int(space.n)) if whole else Spec((BATCH, *space.shape))
    return Option("tensor", "use", spec.text, spec=spec)


def _slot(key: str, option: Option) -> Slot:
    return Slot(key, View([]), (key,), make=lambda _: [option])
