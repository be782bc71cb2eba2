"""The user's functions that a trace may run: found by name, without running anything."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from torch import nn

from fxlib.ir.objects import attribute, has_attribute, home_of, is_a, items_of
from fxlib.ir.span import is_hidden

__all__ = ["Reached", "is_users", "modules_of", "names_in", "reachable", "reached", "unregistered"]

_LIMIT = 300
_NAMES = [*vars(nn.Module())]
_OWN = frozenset(_NAMES)
_COUNT = len(_NAMES)
_CONTAINERS = (list, tuple, dict)
_SCALARS = frozenset((int, float, bool, str, type(None)))


class Reached(NamedTuple):
    """A module under the root, with its own attributes except numbers and strings. A ``leaf`` does not run while
    tracing."""

    path: str
    module: nn.Module
    own: list[tuple[str, Any]]
    leaf: bool


def reached(root: Any, is_leaf: Callable[[nn.Module, str], bool]) -> list[Reached]:
    """The modules of a root; none of a function."""
    if not isinstance(root, nn.Module):
        return []
    return [Reached(path, each, own, each is not root and is_leaf(each, path)) for path, each, own in modules_of(root)]


def reachable(root: Any, modules: Iterable[Reached]) -> list[FunctionType]:
    """The Python functions of the user, or of libraries other than torch, that tracing ``root`` may run: the forward of
    every one of its ``modules`` that is not a leaf, and the functions that those name, as globals, as attributes of
    their class, or in a module."""
    found: dict[FunctionType, type | None] = {}
    todo: list[tuple[FunctionType, type | None]] = []

    def add(thing: Any, owner: type | None) -> None:
        for function in _functions(thing):
            if function not in found and len(found) < _LIMIT:
                found[function] = owner
                todo.append((function, owner))

    helpers: list[type] = []
    if isinstance(root, nn.Module):
        for module in _one_of_each_class(modules):
            add(inspect.getattr_static(type(module), "forward", None), type(module))
            helpers.extend(_helper_types(module))
            for name, value in vars(module).items():
                if name not in _OWN:
                    add(value, None)
    else:
        add(root, None)
    while todo:
        function, owner = todo.pop()
        for thing, of in _named(function, owner, helpers):
            add(thing, of)
    return list(found)


def modules_of(root: nn.Module) -> Iterator[tuple[str, nn.Module, list[tuple[str, Any]]]]:
    """The modules of ``root`` with their paths and attributes, and those that it or they keep in plain lists, tuples
    and dicts: torch.fx rejects calls of these, but a diagnosis traces into them."""
    seen: set[nn.Module] = set()
    plain: list[tuple[str, nn.Module]] = [("", root)]
    while plain:
        registered = [plain.pop()]
        while registered:
            path, module = registered.pop()
            if module in seen:
                continue
            seen.add(module)
            own = _own_attributes(module)
            yield path, module, own
            prefix = f"{path}." if path else ""
            children = [*module._modules.items()]
            registered += [(prefix + name, child) for name, child in reversed(children) if child is not None]
            for name, value in own:
                if is_a(value, _CONTAINERS):
                    plain.extend((f"{prefix}{name}[{key!r}]", held) for key, held in _held(value))


def _own_attributes(module: nn.Module) -> list[tuple[str, Any]]:
    """The attributes without those of every module, numbers, strings, and tuples of these."""
    attributes = module.__dict__
    names = [*attributes]
    names = names[_COUNT:] if names[:_COUNT] == _NAMES else [name for name in names if name not in _OWN]
    found = []
    for name in names:
        value = attributes[name]
        kind = type(value)
        if kind not in _SCALARS and not (kind is tuple and _SCALARS.issuperset(map(type, value))):
            found.append((name, value))
    return found


def unregistered(root: Any, module: nn.Module) -> str:
    """Why the called ``module`` has no path in ``root``, and how to fix it."""
    for owner in root.modules() if isinstance(root, nn.Module) else ():
        for name, value in vars(owner).items():
            if name in _OWN or not is_a(value, _CONTAINERS):
                continue
            if any(held is module for _, held in _held(value)):
                plain, registered = ("dict", "ModuleDict") if isinstance(value, dict) else ("list", "ModuleList")
                plain = "tuple" if isinstance(value, tuple) else plain
                way_out = f"Make `self.{name}` an nn.{registered}"
                return f"This layer is not registered: it is in a plain {plain}. {way_out}"
    return "This layer is not registered: no module has it as an attribute. Create it in `__init__`"


def _held(value: Any, depth: int = 2) -> Iterator[tuple[Any, nn.Module]]:
    """The modules in a plain container, with their keys; nested containers are searched too."""
    for key, item in items_of(value):
        if is_a(item, nn.Module):
            yield key, item
        elif depth > 1 and is_a(item, _CONTAINERS):
            yield from (((key, inner), module) for inner, module in _held(item, depth - 1))


def _one_of_each_class(modules: Iterable[Reached]) -> Iterator[nn.Module]:
    """One module of each class that is traced into."""
    seen: set[type] = set()
    for _, module, _, leaf in modules:
        if not leaf and type(module) not in seen:
            seen.add(type(module))
            yield module


def _helper_types(module: nn.Module) -> Iterator[type]:
    """Classes of the user's plain objects that a module keeps as attributes."""
    for value in vars(module).values():
        if _is_helper(type(value)):
            yield type(value)


def is_users(thing: type | ModuleType) -> bool:
    """Whether a class or a module is the user's, or a library's other than torch."""
    module = thing if isinstance(thing, ModuleType) else sys.modules.get(home_of(thing))
    file = getattr(module, "__file__", None)
    return file is not None and not is_hidden(file)


def _is_helper(kind: type) -> bool:
    return is_users(kind) and not issubclass(kind, nn.Module)


def _functions(thing: Any) -> Iterator[FunctionType]:
    """The user's functions that a call of ``thing`` runs: decorators and the functions that they decorate."""
    if is_a(thing, property):
        thing = thing.fget
    elif is_a(thing, functools.partial):
        thing = thing.func
    thing = attribute(thing, "__func__", thing)
    for _ in range(10):
        if not is_a(thing, FunctionType):
            return
        if not is_hidden(thing.__code__.co_filename):
            yield thing
        thing = getattr(thing, "__wrapped__", None)


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in ``code`` and in the functions inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def _named(function: FunctionType, owner: type | None, helpers: list[type]) -> Iterator[tuple[Any, type | None]]:
    """The possible values of names in the code of ``function``, with the class that each belongs to. Classes of plain
    objects that it names are added to ``helpers``, whose methods count for every function."""
    names = list(dict.fromkeys(names_in(function.__code__)))
    modules: list[ModuleType] = []
    for name in names:
        thing = function.__globals__.get(name)
        if is_a(thing, ModuleType):
            if not is_hidden(getattr(thing, "__file__", None) or "<frozen >"):
                modules.append(thing)
        elif thing is not None and not is_a(thing, type):
            yield thing, None
        elif is_a(thing, type) and has_attribute(thing, "backward") and has_attribute(thing, "apply"):
            yield inspect.getattr_static(thing, "forward", None), thing
        elif is_a(thing, type) and _is_helper(thing) and thing not in helpers:
            helpers.append(thing)
            yield vars(thing).get("__init__"), thing
        elif is_a(thing, type) and issubclass(thing, nn.Module):
            # Possibly created in forward.
            yield inspect.getattr_static(thing, "forward", None), thing
            yield vars(thing).get("__init__"), thing
        for helper in helpers:
            if name in vars(helper):
                yield vars(helper)[name], helper
        if owner is not None:
            yield inspect.getattr_static(owner, name, None), owner
    for module in modules:
        for name in names:
            thing = vars(module).get(name)
            if isinstance(thing, FunctionType):
                yield thing, None
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, None
        except ValueError:
            continue
