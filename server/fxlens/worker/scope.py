"""Names that expressions may use besides those of their file, in comments, configurations and generated expressions.

``torch``, ``nn``, ``F``, ``SimpleNamespace``, ``partial``, ``import_module``, ``AttrDict``, ``PassThrough`` and
``with_attributes``. Definitions of the file take precedence.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast


class AttrDict(dict):
    """A dict whose keys are also attributes, for configurations that are read both ways."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"'AttrDict' object has no attribute '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __deepcopy__(self, memo: dict[int, Any]) -> AttrDict:
        import copy

        return AttrDict({copy.deepcopy(key, memo): copy.deepcopy(value, memo) for key, value in self.items()})

    def copy(self) -> AttrDict:
        return AttrDict(self)


_PassThrough: Any = None


def pass_through() -> Any:
    """The class ``PassThrough``: a module that takes any arguments and returns the first.

    ``PassThrough(2)`` returns it twice, where the code expects two results. Attributes can be given:
    ``PassThrough(num_channels=64)``. It is traced into like a function: as one that is given for a method of some
    object, no module has it as an attribute.
    """
    global _PassThrough
    if _PassThrough is None:
        import torch

        class PassThrough(torch.nn.Module):
            def __init__(self, results: int = 1, **attributes: Any) -> None:
                super().__init__()
                self.results = results
                for name, value in attributes.items():
                    setattr(self, name, value)

            def forward(self, *args: Any, **kwargs: Any) -> Any:
                first = args[0] if args else next(iter(kwargs.values()), None)
                return first if self.results == 1 else (first,) * self.results

            __call__ = forward

        PassThrough.__module__ = __name__
        PassThrough.__qualname__ = "PassThrough"
        _PassThrough = PassThrough
    return _PassThrough


def with_attributes(thing: Any, **attributes: Any) -> Any:
    """The object with these attributes set."""
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


def names() -> dict[str, Any]:
    """The helper names alone."""
    torch = sys.modules["torch"]
    return {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "SimpleNamespace": SimpleNamespace,
        "partial": functools.partial,
        "import_module": importlib.import_module,
        "AttrDict": AttrDict,
        "PassThrough": pass_through(),
        "with_attributes": with_attributes,
    }


def class_named(namespace: Any, name: str) -> Any:
    """The class of a target, ``Net`` or ``Net.Block``; None if the module has none of this name."""
    found = namespace
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def scope(namespace: ModuleType | None) -> dict[str, Any]:
    """The namespace for expressions about a class of this module."""
    return {**names(), **(vars(namespace) if namespace is not None else {})}


def spelled(thing: Any, names: dict[str, Any]) -> str:
    """The name for a class, function or member of a module in this scope."""
    from fxlib.ir.objects import attribute, home_of

    name = attribute(thing, "__name__", "")
    if name and names.get(name) is thing:
        return name
    torch = sys.modules["torch"]
    for prefix, module in (("nn", torch.nn), ("F", torch.nn.functional), ("torch", torch)):
        if name and getattr(module, name, None) is thing and names.get(prefix) is module:
            return f"{prefix}.{name}"
    for key, value in names.items():
        if value is thing and key.isidentifier() and not key.startswith("__"):
            return key
    module_name = home_of(thing)
    qualified = attribute(thing, "__qualname__", name)
    outer, _, inner = qualified.partition(".")
    if inner and class_named(names.get(outer), inner) is thing:
        return qualified
    modules = [(key, value) for key, value in names.items() if isinstance(value, ModuleType) and key.isidentifier()]
    reached = [f"{key}.{path}" for key, value in modules if (path := _exported(value, thing))]
    if reached:
        return min(reached, key=len)
    return f"import_module({module_name!r}).{qualified}"


def _exported(module: ModuleType, thing: Any) -> str | None:
    """The shortest public path of an object: ``spaces.Box`` of ``gymnasium.spaces.box.Box``."""
    from fxlib.ir.objects import attribute, home_of

    name, home = attribute(thing, "__qualname__", ""), f"{home_of(thing)}."
    inside = home.removeprefix(f"{module.__name__}.")
    if not name or inside == home:
        return None
    path, found = [name], cast(Any, module)
    for part in [*inside.split(".")[:-1], ""]:
        if class_named(found, name) is thing:
            return ".".join(path)
        path.insert(len(path) - 1, part)
        found = getattr(found, "__dict__", {}).get(part)
    return None
