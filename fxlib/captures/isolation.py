"""Restores the state of a module after a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from fxlib.captures.places import forward_of
from fxlib.ir.held import Contents, Generators
from fxlib.ir.leaves import same_values, version_of, write_back

__all__ = ["copied", "restored"]

_PLAIN = (bool, int, float, str, bytes, type(None))
_LARGEST = 50_000_000  # elements of parameters and buffers; larger ones are neither copied nor restored


@contextlib.contextmanager
def restored(module: torch.nn.Module) -> Iterator[None]:
    """Restore a module's attributes with their contents, parameters, buffers and training mode, plain globals of the
    files that define it, and the random generators. Attributes are the same objects afterwards: others may hold them,
    too.

    Within another one for the same module, nothing is copied that has not changed since."""
    held = [(each, dict(vars(each))) for each in module.modules()]
    contents = Contents(value for _, attributes in held for value in attributes.values())
    tensors = _kept(module)
    scopes = {id(scope): scope for scope in map(_globals, module.modules()) if scope is not None}.values()
    plain = [(scope, {name: value for name, value in scope.items() if type(value) in _PLAIN}) for scope in scopes]
    generators = Generators()
    outermost = not _known
    _known.update((id(each.tensor), each) for each in tensors)
    try:
        yield
    finally:
        for each, attributes in held:
            vars(each).clear()
            vars(each).update(attributes)
        contents.restore()
        for scope, constants in plain:
            scope.update(constants)
        try:
            for kept in tensors:
                kept.restore(certainly=outermost)
        finally:
            generators.restore()
            if outermost:
                _known.clear()


@dataclass
class _Kept:
    """A parameter or buffer as it was."""

    tensor: torch.Tensor
    value: torch.Tensor
    version: int

    def restore(self, certainly: bool) -> None:
        """``certainly``: also a parameter that was written without a count, as through its ``data``."""
        written = version_of(self.tensor) != self.version
        if self.tensor.shape != self.value.shape or not (written or certainly or not _is_parameter(self.tensor)):
            return
        plain = type(self.value) is torch.Tensor and self.value.layout is torch.strided
        if written or (plain and not same_values(self.tensor, self.value)):
            write_back(self.tensor.data, self.value)
            self.version = version_of(self.tensor)


_known: dict[int, _Kept] = {}
"""What the contexts around this one have kept."""


def _is_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _kept(module: torch.nn.Module) -> list[_Kept]:
    found, left = [], _LARGEST
    for tensor in (*module.buffers(), *module.parameters()):
        if is_lazy(tensor) or tensor.device.type == "meta" or tensor.numel() > left:
            continue
        left -= tensor.numel()
        known = _known.get(id(tensor))
        if known is None or version_of(tensor) != known.version or not _is_parameter(tensor):
            known = _Kept(tensor, tensor.detach().clone(), version_of(tensor))
        found.append(known)
    return found


def _globals(module: torch.nn.Module) -> dict[str, Any] | None:
    """The globals of the file that defines a user's module."""
    function = forward_of(module)
    return function.__globals__ if function is not None else None


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
