"""Stand-ins for the classes of configurations of packages that are not installed, as yacs and easydict: files build
their defaults with them while they are imported."""

from __future__ import annotations

import ast
import copy
import functools
import os
from collections.abc import Mapping
from typing import Any

from .scope import AttrDict

_CLASSES = {
    "yacs.config": "CfgNode", "fvcore.common.config": "CfgNode", "easydict": "EasyDict", "addict": "Dict",
    "addict.addict": "Dict", "munch": "Munch", "ml_collections": "ConfigDict",
    "ml_collections.config_dict": "ConfigDict", "ml_collections.config_dict.config_dict": "ConfigDict",
}  # fmt: skip
_MAKES_WHAT_IS_READ = "Dict"
"""The one whose missing items are made when they are read: ``config.model.width = 3``."""


def stands_for(name: str) -> type | None:
    """The class for a dotted name, ``yacs.config.CfgNode``; None for others."""
    module, _, last = name.rpartition(".")
    return _named(module, last) if _CLASSES.get(module) == last else None


@functools.cache
def _named(module: str, name: str) -> type:
    return type(name, (_Making if name == _MAKES_WHAT_IS_READ else _Config,), {"__module__": module})


class _Config(AttrDict):
    """A dict whose keys are attributes, also those of dicts in it."""

    def __init__(self, *given: Any, **items: Any) -> None:
        super().__init__()
        self.update(given[0] if given and isinstance(given[0], Mapping) else {}, **items)

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, self._own(value))

    def _own(self, value: Any) -> Any:
        if type(value) is dict:
            return type(self)(value)
        if type(value) in (list, tuple):
            return type(value)(map(self._own, value))
        return value

    def update(self, *given: Any, **items: Any) -> None:
        for name, value in dict(*given, **items).items():
            both = isinstance(value, dict) and isinstance(self.get(name), dict)
            if both:
                self[name].update(value)
            else:
                self[name] = value

    merge_from_other_cfg = merge = update

    def merge_from_file(self, path: Any) -> None:
        """A file that is not there changes nothing."""
        import yaml

        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                self.update(yaml.safe_load(file) or {})

    def merge_from_list(self, given: list[Any]) -> None:
        """``["MODEL.DEPTH", 3]``"""
        for name, value in zip(given[::2], given[1::2], strict=False):
            *path, last = str(name).split(".")
            functools.reduce(lambda inner, key: inner[key], path, self)[last] = _value(value)

    def clone(self) -> Any:
        return copy.deepcopy(self)

    copy = copy_and_resolve_references = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)({name: copy.deepcopy(value, memo) for name, value in self.items()})

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)

    def to_dict(self) -> dict[Any, Any]:
        return {name: value.to_dict() if isinstance(value, _Config) else value for name, value in self.items()}

    toDict = to_dict

    def dump(self, *_: Any, **__: Any) -> str:
        return str(self)

    def is_frozen(self) -> bool:
        return False

    def freeze(self, *_: Any) -> None:
        """What it holds can always be set."""

    defrost = lock = unlock = set_new_allowed = register_deprecated_key = register_renamed_key = freeze


class _Making(_Config):
    def __missing__(self, name: Any) -> Any:
        if isinstance(name, str) and name.startswith("__"):
            raise KeyError(name)
        self[name] = made = type(self)()
        return made


def _value(text: Any) -> Any:
    try:
        return ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError):
        return text
