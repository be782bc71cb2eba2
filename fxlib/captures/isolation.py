"""Restores the state of a module after a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxlib.captures.places import forward_of
from fxlib.ir.leaves import write_back

__all__ = ["copied", "restored"]

_PLAIN = (bool, int, float, str, bytes, type(None))
_LARGEST = 50_000_000  # elements of buffers; larger ones are neither copied nor restored


@contextlib.contextmanager
def restored(module: torch.nn.Module) -> Iterator[None]:
    """Restore a module's attributes, buffers and training mode, plain globals of the files that define it, and torch's
    random state. Attributes are the same objects afterwards: others may hold them, too."""
    held: list[tuple[Any, dict[str, Any], list[tuple[Any, list[Any]]]]] = []
    values: list[tuple[torch.Tensor, torch.Tensor]] = []
    left = _LARGEST
    for each in module.modules():
        containers = [value for value in vars(each).values() if type(value) in (dict, list, set)]
        held.append((each, dict(vars(each)), [(value, _items(value)) for value in containers]))
        for buffer in each._buffers.values():
            if buffer is not None and buffer.device.type != "meta" and buffer.numel() <= left:
                left -= buffer.numel()
                values.append((buffer, buffer.detach().clone()))
    scopes = {id(scope): scope for scope in map(_globals, module.modules()) if scope is not None}.values()
    plain = [(scope, {name: value for name, value in scope.items() if type(value) in _PLAIN}) for scope in scopes]
    random = torch.get_rng_state()
    try:
        yield
    finally:
        for each, attributes, contents in held:
            vars(each).clear()
            vars(each).update(attributes)
            for container, items in contents:
                _refill(container, items)
        for scope, constants in plain:
            scope.update(constants)
        for buffer, value in values:
            if buffer.shape == value.shape:
                write_back(buffer, value)
        torch.set_rng_state(random)


def _globals(module: torch.nn.Module) -> dict[str, Any] | None:
    """The globals of the file that defines a user's module."""
    function = forward_of(module)
    return function.__globals__ if function is not None else None


def _items(container: Any) -> list[Any]:
    """The elements of a container, or the keys and values in turn."""
    return [each for pair in container.items() for each in pair] if type(container) is dict else [*container]


def _refill(container: Any, items: list[Any]) -> None:
    """Give a container the items that it had, unless it has them still."""
    if [*map(id, _items(container))] == [*map(id, items)]:
        return
    container.clear()
    if type(container) is list:
        container.extend(items)
    else:
        container.update(zip(items[::2], items[1::2], strict=True) if type(container) is dict else items)


def copied(values: Any) -> Any:
    """Copies of the inputs, since forward may write into them."""

    def copy_of(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        copy = value.detach().clone().requires_grad_(value.requires_grad)
        # Keep the marks of dimensions that the user marked as dynamic.
        vars(copy).update({name: kept for name, kept in vars(value).items() if name.startswith("_dynamo")})
        return copy

    return pytree.tree_map(copy_of, values)
