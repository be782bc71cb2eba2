"""Modules: detecting altered ones, copying them, and restoring their state after a run."""

from __future__ import annotations

import copy
import copyreg
import functools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxlib.ir.leaves import write_back
from fxlib.ir.writes import Writes

__all__ = ["copy_of", "copy_with", "data_kept", "hollow_copy", "is_altered", "writes_undone"]

_HOOKS = tuple(name for name, table in vars(nn.Module()).items() if type(table) is OrderedDict)


def is_altered(module: nn.Module) -> bool:
    """Whether a call of a module may differ from its class's behaviour: it has hooks, or overrides methods on the
    instance, such as ``forward``."""
    if module._forward_hooks or module._forward_pre_hooks:
        return True
    kind: type = type(module)
    return not _functions_of(kind).isdisjoint(module.__dict__)


@functools.lru_cache(maxsize=1024)
def _functions_of(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


def copy_of(model: nn.Module, sharing: bool = False, shared: Iterable[Any] = ()) -> Any:
    """A deep copy. Computed tensors, such as the weight of ``weight_norm``, are copied without their autograd history.

    With ``sharing`` the copy shares the model's parameters, which is fast and takes no memory; the caller must restore
    their values. It also shares the objects ``shared``."""
    memo: dict[int, Any] = {id(each): each for each in (*shared, *(model.parameters() if sharing else ()))}
    for module in model.modules():
        for value in (*vars(module).values(), *module.buffers(recurse=False)):
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
            elif type(value) in _HOLDERS and value and value is not module._modules:
                memo |= {id(each): each.detach().clone() for each in _computed(value)}
    return copy_with(memo, model)


_HOLDERS = (dict, list, tuple)


def _computed(container: Any, depth: int = 4) -> Iterator[torch.Tensor]:
    """The computed tensors in a container, such as a cache that forward fills."""
    for value in container.values() if type(container) is dict else container:
        if isinstance(value, torch.Tensor) and not value.is_leaf:
            yield value
        elif depth and type(value) in _HOLDERS:
            yield from _computed(value, depth - 1)


def copy_with(memo: dict[int, Any], model: nn.Module) -> Any:
    """``copy.deepcopy(model, memo)``, but much faster unless a class customizes copying: most attributes of a module
    are plain values and a dozen empty tables of hooks."""
    if id(model) in memo:
        return memo[id(model)]
    modules = list(model.modules())
    kinds: set[type] = {type(each) for each in modules}
    if not all(map(_is_copied_plainly, kinds)) or any(
        id(each) in memo or "__deepcopy__" in vars(each) for each in modules
    ):
        for module in modules:
            for name in _HOOKS:
                _copied(vars(module).get(name), memo)
        return copy.deepcopy(model, memo)
    for module in modules:
        memo[id(module)] = type(module).__new__(type(module))
    for module in modules:
        vars(memo[id(module)]).update({name: _copied(value, memo) for name, value in vars(module).items()})
    return memo[id(model)]


def hollow_copy(model: nn.Module, dtype: torch.dtype | None = None) -> Any:
    """A deep copy whose parameters and buffers have no data; floating-point ones get ``dtype``, if given."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in (*vars(module).values(), *module._parameters.values(), *module._buffers.values()):
            if isinstance(value, torch.Tensor) and id(value) not in memo:
                to = dtype if value.is_floating_point() else None
                bare = value if is_lazy(value) else value.detach().to("meta", to)
                is_parameter = isinstance(value, nn.Parameter) and bare is not value
                memo[id(value)] = nn.Parameter(bare, value.requires_grad) if is_parameter else bare
    return copy_with(memo, model)


_VALUES = {bool, int, float, str, type(None), torch.dtype}
_CONTAINERS = {OrderedDict, dict, list, set}
_MISSING = object()
_LAYERS = "torch.nn.modules."
_WAYS = (
    "__deepcopy__", "__getattr__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__new__", "__reduce__",
    "__reduce_ex__", "__slots__",
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _is_copied_plainly(kind: type) -> bool:
    """Whether a class inherits copying and attribute access from `nn.Module` and `object`."""
    restores = kind.__setstate__  # type: ignore[attr-defined]
    # Torch's own layers override it only to add what older versions lack, except recurrent ones.
    own = restores.__module__.startswith(_LAYERS) and restores.__module__ != nn.RNNBase.__module__
    if kind in copyreg.dispatch_table or not own:
        return False
    return all(getattr(kind, name, _MISSING) is getattr(nn.Module, name, _MISSING) for name in _WAYS)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _VALUES:
        return value
    if kind in _CONTAINERS and not value:
        return memo.setdefault(id(value), kind())
    return copy.deepcopy(value, memo)


@contextmanager
def data_kept(root: nn.Module, parameters: bool = False) -> Iterator[None]:
    """Restore the data of all buffers and of tensors that are attributes at the end.

    Parameters stay the same objects; their data is restored only with ``parameters``, since that doubles their memory.
    """
    held: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = {}
    for module in root.modules():
        for value in (*vars(module).values(), *module._buffers.values(), *module._parameters.values()):
            if isinstance(value, torch.Tensor) and id(value) not in held:
                copied = parameters or not isinstance(value, nn.Parameter)
                held[id(value)] = value, value.data, value.data.clone() if copied else None
    try:
        yield
    finally:
        for tensor, data, before in held.values():
            if tensor.data_ptr() != data.data_ptr():
                tensor.data = data
            if before is not None and not tensor.is_meta:
                write_back(data, before)


@contextmanager
def writes_undone(root: nn.Module) -> Iterator[list[str]]:
    """Yields the names of the parameters and buffers that operators write to, and restores these at the end. Only what
    is written to is copied."""
    tensors = {**dict(root.named_parameters()), **dict(root.named_buffers())}
    held: dict[str, torch.Tensor] = {}
    written: list[str] = []

    def about_to(name: str) -> None:
        if name not in held:
            held[name] = tensors[name].detach().clone()
            written.append(name)

    try:
        with Writes(tensors.items(), about_to):
            yield written
    finally:
        for name, before in held.items():
            write_back(tensors[name].data, before)
