"""The state of the user's modules before a trace: compared with after, and put back."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn

from fxlib.diagnosis.engine.reach import modules_of

__all__ = ["Change", "Snapshot"]

_INTERNAL = frozenset(nn.Module().__dict__)
_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_ABSENT = object()


class Change(NamedTuple):
    """What a trace did to the attribute ``name`` of the module at ``path``; ``kind`` is "attribute", "buffer",
    "parameter", "module" or "data" (a buffer written in place). A container that was changed is its own after."""

    module: nn.Module
    path: str
    name: str
    kind: str
    before: Any
    after: Any


def _same(current: Any, table: Any) -> bool:
    """Whether two tables hold the very same things in the same order."""
    if isinstance(current, set):
        return current == table
    if isinstance(current, list):
        return len(current) == len(table) and all(a is b for a, b in zip(current, table, strict=True))
    return list(current) == list(table) and all(current[name] is table[name] for name in table)


class Snapshot:
    """A snapshot of every module under ``root`` that is traced into, and of the globals that ``functions`` name.

    Leaves do not run while tracing; of them only the buffers are kept, which a forward above may write to.
    """

    def __init__(
        self, root: Any, is_leaf: Callable[[nn.Module, str], bool], functions: Iterable[FunctionType] = ()
    ) -> None:
        self._modules: list[tuple[str, nn.Module, dict[str, Any], dict[str, Any]]] = []
        self._buffers: list[tuple[str, nn.Module, str, torch.Tensor, int, torch.Tensor | None]] = []
        self._containers: list[tuple[nn.Module, str, str, Any, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any, Any]] = []
        for function in functions:
            space = function.__globals__
            for name in function.__code__.co_names:
                if name in space:
                    value = space[name]
                    content = copy.copy(value) if type(value) in (dict, list, set) else None
                    self._globals.append((space, name, value, content))
        self._random = random.getstate()
        self._torch_random = torch.get_rng_state()
        self.grad = torch.is_grad_enabled()
        if not isinstance(root, nn.Module):
            return
        for path, module in modules_of(root):
            self._keep_buffers(path, module)
            if module is not root and is_leaf(module, path):
                continue
            held = {name: module.__dict__.get(name) for name in _TABLES}
            tables = {name: table.copy() for name, table in held.items() if isinstance(table, (dict, set))}
            self._modules.append((path, module, dict(module.__dict__), tables))
            for name, value in module.__dict__.items():
                if isinstance(value, (dict, list, set)) and name not in _INTERNAL:
                    self._containers.append((module, path, name, value, copy.copy(value)))

    def _keep_buffers(self, path: str, module: nn.Module) -> None:
        for name, buffer in module._buffers.items():
            if buffer is not None:
                kept = None if buffer.is_meta else buffer.detach().clone()
                self._buffers.append((path, module, name, buffer, buffer._version, kept))

    def changes(self) -> list[Change]:
        """What is different now. Constants that a tracer keeps on the root do not count."""
        found: list[Change] = []
        for path, module, attributes, tables in self._modules:
            for name, value in module.__dict__.items():
                if name in _TABLES or name.startswith(("_tensor_constant", "_torchbind_obj", "_opaque_obj")):
                    continue
                before = attributes.get(name, _ABSENT)
                if before is not value:
                    found.append(Change(module, path, name, "attribute", before, value))
            for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer"), ("_modules", "module")):
                now = module.__dict__.get(table, {})
                for name, value in now.items():
                    before = tables.get(table, {}).get(name, _ABSENT)
                    if before is not value and not name.startswith("_tensor_constant"):
                        found.append(Change(module, path, name, kind, before, value))
        for module, path, name, value, before in self._containers:
            if not _same(value, before):
                found.append(Change(module, path, name, "attribute", before, value))
        for path, module, name, buffer, version, _ in self._buffers:
            if module._buffers.get(name) is buffer and buffer._version != version:
                found.append(Change(module, path, name, "data", buffer, buffer))
        return found

    def drew_random(self) -> bool:
        """Whether random numbers were drawn."""
        return random.getstate() != self._random or not torch.equal(torch.get_rng_state(), self._torch_random)

    def restore(self) -> None:
        """Put every module, buffer, random generator and the grad mode back."""
        for _, module, attributes, tables in self._modules:
            now = module.__dict__
            for name in [name for name in now if name not in attributes]:
                del now[name]
            now.update(attributes)
            for name, table in tables.items():
                current = now[name]
                if not _same(current, table):
                    current.clear()
                    current.update(table)
        for space, name, value, _ in self._globals:
            if space.get(name) is not value:
                space[name] = value
        held: list[Any] = [*self._containers, *self._globals]
        containers = [(item[-2], item[-1]) for item in held if item[-1] is not None]
        for value, before in containers:
            if not _same(value, before):
                value.clear()
                value.extend(before) if isinstance(value, list) else value.update(before)
        for *_, buffer, version, kept in self._buffers:
            if kept is not None and buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(kept)
        random.setstate(self._random)
        torch.set_rng_state(self._torch_random)
        torch.set_grad_enabled(self.grad)
