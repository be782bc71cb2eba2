"""The state of the user's modules before a trace: compared afterwards, and restored."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from operator import is_
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxlib.diagnosis.engine.reach import Reached, names_in
from fxlib.diagnosis.engine.shared import Shared, refill, same
from fxlib.ir.held import Contents, Generators
from fxlib.ir.leaves import leaves_once, same_values, version_of, write_back
from fxlib.ir.objects import is_a
from fxlib.ir.writes import Writes

__all__ = ["Change", "Hooks", "Snapshot"]

_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
# The prefixes of constants that a tracer stores on the root.
_KEPT = ("_tensor_constant", "_torchbind_obj", "_opaque_obj")
_ABSENT = object()
# Names in code that may write to parameters without a proxy.
_OF_PARAMETERS = frozenset({"data", "numpy", "parameters", "named_parameters", "_parameters", "state_dict"})
_UNCOUNTED = frozenset({"data", "vector_to_parameters"})
"""Names in code that may write to a tensor, or give it other memory, without a new version of it."""
_OF_GRADIENTS = frozenset({"requires_grad", "requires_grad_"})
"""Names in code that may change whether parameters require gradients."""
_MOST = 50_000_000  # elements of parameters that are copied because of such names


class Change(NamedTuple):
    """A trace's change of the attribute ``name`` of the module at ``path``; ``kind`` is "attribute", "buffer",
    "parameter", "module" or "data" (a buffer written in place). For a changed container, ``after`` is the container
    itself."""

    module: nn.Module
    path: str
    name: str
    kind: str
    before: Any
    after: Any


class _Tensor(NamedTuple):
    """A tensor of a module, with its version and a copy of it, if any; ``memory`` shares its memory, if that may be
    replaced."""

    path: str
    module: nn.Module
    name: str
    tensor: torch.Tensor
    version: int
    kept: torch.Tensor | None
    memory: torch.Tensor | None

    @property
    def change(self) -> Change:
        return Change(self.module, self.path, self.name, "data", self.tensor, self.tensor)

    def is_held(self) -> bool:
        """Whether the module still has it."""
        tables = (self.module._buffers, self.module._parameters)
        return next((table[self.name] for table in tables if self.name in table), self.tensor) is self.tensor

    def is_elsewhere(self) -> bool:
        """Whether it has got other memory, as by ``tensor.data = other``."""
        return self.memory is not None and _address(self.memory) != _address(self.tensor)


class Hooks(NamedTuple):
    """The hooks of one kind of the module at ``path``: the table itself, and its items before. A ``leaf`` runs them
    itself, in a graph as in eager."""

    path: str
    table: dict[int, Any]
    before: dict[int, Any]
    leaf: bool


class _Held(NamedTuple):
    """A module as it was, with copies of its attributes and tables; ``marks`` are their keys and identities."""

    path: str
    module: nn.Module
    attributes: dict[str, Any]
    tables: dict[str, Any]
    marks: list[tuple[Any, list[Any], list[int]]]


def _written_by(functions: Iterable[FunctionType]) -> tuple[bool, bool, bool]:
    """Whether functions may write to parameters, whether they may change which require gradients, and whether they may
    write without a new version. That is then kept, too."""
    names = {name for function in functions for name in names_in(function.__code__)}
    parameters, gradients, uncounted = (
        not some.isdisjoint(names) for some in (_OF_PARAMETERS, _OF_GRADIENTS, _UNCOUNTED)
    )
    return parameters, gradients, uncounted


def _marked(container: Any) -> tuple[Any, list[Any], list[int]]:
    if not container:  # most tables of layers
        return container, [], []
    return container, [*container], [*map(id, container.values())] if isinstance(container, dict) else []


def _has_changed(held: _Held) -> bool:
    for now, keys, identities in held.marks:
        if (now or keys) and ([*now] != keys or (identities and [*map(id, now.values())] != identities)):
            return True
    return False


class _Contents:
    """The contents of dicts and sets in one flat list: one comparison for hundreds of modules."""

    def __init__(self, containers: list[Any]) -> None:
        self._all = containers
        self._dicts = [each for each in containers if isinstance(each, dict)]
        self._counts, self._keys = [*map(len, self._all)], [*chain.from_iterable(self._all)]
        self._values = [*chain.from_iterable(map(dict.values, self._dicts))]

    def differ(self) -> bool:
        """Whether their items, by identity, or their order have changed."""
        if [*map(len, self._all)] != self._counts or [*chain.from_iterable(self._all)] != self._keys:
            return True
        return not all(map(is_, chain.from_iterable(map(dict.values, self._dicts)), self._values))


class Snapshot:
    """A snapshot of every module under ``root`` that is traced into, and of the state of ``functions`` outside of
    modules.

    Leaves do not run while tracing; only their buffers, submodules and attributes are kept, which an outer forward may
    write to, as it does with the layers that it puts into an nn.ModuleDict on first use.
    """

    def __init__(self, modules: Iterable[Reached], functions: Iterable[FunctionType] = ()) -> None:
        functions = list(functions)
        self._doubt = _written_by(functions)
        parameters, gradients, _ = self._doubt
        self._needing: dict[nn.Parameter, bool] = {}
        self._left = _MOST
        self._held: list[tuple[str, Any]] = []
        self._modules: list[_Held] = []
        self._tensors: list[_Tensor] = []
        self._noted: set[int] = set()
        self._containers: list[tuple[nn.Module, str, str, Any, Any]] = []
        self._keep_generators()
        self._classes: dict[type, None] = {}
        self._hooks: list[Hooks] = []
        for path, module, own, leaf in modules:
            attributes = module.__dict__
            tables = {
                name: table.copy()
                for name in (("_buffers", "_modules") if leaf else _TABLES)
                if isinstance(table := attributes.get(name), (dict, set))
            }
            if gradients:
                self._needing |= {each: each.requires_grad for each in module._parameters.values() if each is not None}
            marks = [_marked(attributes), *[_marked(attributes[name]) for name in tables]]
            self._modules.append(_Held(path, module, dict(attributes), tables, marks))
            for name in _HOOKS:
                table = attributes.get(name)
                if table is not None and (table or not leaf):
                    self._hooks.append(Hooks(path, table, dict(table), leaf))
            self._keep_tensors(path, module, module._buffers.items())
            if parameters:
                self._keep_tensors(path, module, module._parameters.items())
            for name, value in own:
                if is_a(value, (torch.Tensor, list, tuple, dict)):
                    leaves = [(name, each) for each in leaves_once(value) if type(each) is torch.Tensor]
                    self._keep_tensors(path, module, leaves)
            if leaf:
                continue
            self._held += own
            self._classes.update(dict.fromkeys(type(module).__mro__))
            for name, value in own:
                if not is_a(value, (dict, list, set)):
                    continue
                with contextlib.suppress(Exception):  # of a class of its own, whose methods may refuse
                    before = copy.copy(value)
                    if same(value, before):
                        self._containers.append((module, path, name, value, before))
        self._contents = _Contents([container for each in self._modules for container, _, _ in each.marks])
        self.shared = Shared(functions, self._classes, self._held)
        self._nested = Contents(value for _, value in self._held)

    def _keep_generators(self) -> None:
        self._generators = Generators()
        self.grad = torch.is_grad_enabled()

    def renewed(self) -> bool:
        """Whether this still is the current state, except for random generators and the grad mode, which are
        updated."""
        self._keep_generators()
        hooks = any(each.table != each.before for each in self._hooks)
        return (
            not hooks
            and not self.changes()
            and not self.shared.changes()
            and not any(each.is_elsewhere() for each in self._tensors)
            and self.needing() == [*self._needing.values()]
        )

    def follow(self, functions: Iterable[FunctionType]) -> bool:
        """Keep the current state of these functions outside of modules; False if the snapshot does not cover them,
        since they may write to other state than the previous ones."""
        functions = list(functions)
        self.shared = Shared(functions, self._classes, self._held)
        return self._doubt == _written_by(functions)

    def _keep_tensors(self, path: str, module: nn.Module, found: Iterable[tuple[str, torch.Tensor | None]]) -> None:
        for name, tensor in found:
            if tensor is None or is_lazy(tensor):
                continue
            if isinstance(tensor, nn.Parameter):
                self._left -= tensor.numel()
            large = isinstance(tensor, nn.Parameter) and self._left < 0
            kept = None if tensor.is_meta or large else tensor.detach().clone()
            memory = tensor.detach() if self._doubt[2] else None
            self._tensors.append(_Tensor(path, module, name, tensor, version_of(tensor), kept, memory))

    def changes(self) -> list[Change]:
        """The current differences. Constants that a tracer stores on the root do not count."""
        return [*self._changes()]

    def _changes(self) -> Iterator[Change]:
        for path, module, attributes, tables, _ in self._changed_modules():
            compared = [("attribute", vars(module), attributes)]
            # A scripted module has other tables, which return new objects at each access.
            compared += [
                (kind, vars(module)[table], tables[table]) for table, kind in _KINDS.items() if table in tables
            ]
            for kind, now, before in compared:
                for name, value in now.items():
                    if before.get(name, _ABSENT) is not value and not name.startswith(_KEPT) and name not in _TABLES:
                        yield Change(module, path, name, kind, before.get(name, _ABSENT), value)
        for module, path, name, value, before in self._containers:
            if not same(value, before):
                yield Change(module, path, name, "attribute", before, value)
        yield from (each.change for each in self._tensors if _written(each) and each.is_held())

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """For `uncounted`, notes to which tensors a run writes, and which it gives memory of none of them: one that
        shares the memory of another from now on does so in a graph, too."""
        if not self._doubt[2]:
            yield
            return
        try:
            with self._writes:
                yield
        finally:
            moved = {number for number, each in enumerate(self._tensors) if each.is_elsewhere()}
            own = {_address(each.memory) for each in self._tensors if moved and each.memory is not None}
            self._noted |= {number for number in moved if _address(self._tensors[number].tensor) not in own}

    @cached_property
    def _writes(self) -> Writes:
        named = ((str(number), each.tensor) for number, each in enumerate(self._tensors))
        return Writes(named, lambda number: self._noted.add(int(number)))

    def uncounted(self) -> list[Change]:
        """The tensors that a run has perhaps written to without a difference, or given other memory, as changes."""
        return [each.change for each in map(self._tensors.__getitem__, sorted(self._noted)) if each.is_held()]

    def changed_hooks(self) -> list[Hooks]:
        """The hooks of modules that are traced into which have been added or removed."""
        return [each for each in self._hooks if not each.leaf and each.table != each.before]

    def needing(self) -> list[bool]:
        """The parameters that require gradients now; empty if no code could change that."""
        return [each.requires_grad for each in self._needing]

    @property
    def needed(self) -> Mapping[nn.Parameter, bool]:
        """Whether each parameter required gradients; empty if no code could change that."""
        return self._needing

    def differs(self) -> bool:
        """Whether attributes of a module have changed."""
        return any(True for _ in self._changed_modules())

    def _changed_modules(self) -> Iterator[_Held]:
        return filter(_has_changed, self._modules if self._contents.differ() else ())

    def drew_random(self) -> bool:
        """Whether random numbers were drawn."""
        return self._generators.drew()

    def restore(self, shared: bool = True) -> None:
        """Restore every module, buffer, random generator and the grad mode; also hooks, and state outside of modules,
        unless ``shared`` is False."""
        if shared:
            self.shared.restore()
            self._nested.restore()
            for _, table, hooks, _ in self._hooks:
                if table != hooks:
                    table.clear()
                    table.update(hooks)
        for _, module, attributes, tables, _ in self._changed_modules():
            now = module.__dict__
            for name in [name for name in now if name not in attributes]:
                del now[name]
            now.update(attributes)
            for name, table in tables.items():
                current = now[name]
                if not same(current, table):
                    current.clear()
                    current.update(table)
        for *_, value, before in self._containers:
            if not same(value, before):
                refill(value, before)
        for each in self._tensors:
            if each.memory is not None and each.is_elsewhere():
                each.tensor.data = each.memory
            if each.kept is not None and _written(each):
                write_back(each.tensor.data, each.kept)  # which is no further write for torch
        for parameter, needed in self._needing.items():
            if parameter.requires_grad != needed:
                parameter.requires_grad_(needed)
        self._generators.restore()
        torch.set_grad_enabled(self.grad)


def _address(tensor: torch.Tensor) -> int:
    """Where its memory is, also on meta; the same for all tensors without any, such as sparse ones."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return 0


def _written(held: _Tensor) -> bool:
    """Whether a tensor was written to. Writes through `data` or a NumPy array do not change its version."""
    tensor, kept = held.tensor, held.kept
    if version_of(tensor) != held.version:
        return True
    return type(kept) is torch.Tensor and kept.layout is torch.strided and not same_values(tensor, kept)
