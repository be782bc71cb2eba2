"""The leaves of nested arguments and results; single values and sequences treated alike."""

import copy
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import is_not
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

__all__ = [
    "as_sequence",
    "cast",
    "copied",
    "leaves_once",
    "map_tensors",
    "same_values",
    "storages",
    "tensors_in",
    "version_of",
    "write_back",
]


_PLAIN = (torch.Tensor, bool, int, float, str, type(None))
_ATOMS = frozenset((*_PLAIN, torch.nn.Parameter))
_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))


def leaves_once(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dicts, in no certain order. Each container is entered once, and without
    recursion: what an attribute holds may refer back to itself, as the nodes of a tree to their parents."""
    entered: dict[int, Any] = {}
    todo = [value]
    while todo:
        each = todo.pop()
        kind = type(each)
        if kind is list or kind is tuple:
            parts = each
        elif kind is dict:
            parts = each.values()
        else:
            parts = [each] if kind in _ATOMS else pytree.tree_leaves(each, is_leaf=functools.partial(is_not, each))
            if len(parts) == 1 and parts[0] is each:
                yield each
                continue
        if id(each) not in entered:
            entered[id(each)] = each
            todo.extend(parts)


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists, dicts and plain records, from left to right."""
    if all(type(each) in _TENSORS for each in values):
        return [*values]
    found: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(values):
        if torch.is_tensor(leaf):
            found.append(leaf)
        elif _is_record(leaf):
            found += tensors_in(vars(leaf))
    return found


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same nested tuples, lists, dicts and plain records with ``function`` of each tensor in its place."""

    def mapped(leaf: Any) -> Any:
        if torch.is_tensor(leaf):
            return function(leaf)
        if not _is_record(leaf):
            return leaf
        made = copy.copy(leaf)
        vars(made).update(map_tensors(function, vars(leaf)))
        return made

    return pytree.tree_map(mapped, value)


def storages(value: object) -> set[Hashable]:
    """A key for the memory of each tensor in a value; tensors that share memory share a key."""
    found: set[Hashable] = set()
    for tensor in tensors_in(value):
        try:
            found.add(StorageWeakRef(tensor.untyped_storage()))
        except (NotImplementedError, RuntimeError):  # opaque and sparse tensors have none
            found.add(("tensor", id(tensor)))
    return found


def _is_record(value: Any) -> bool:
    """Whether an object unknown to pytree is a plain record of tensors and plain values."""
    held = getattr(value, "__dict__", None)
    if type(held) is not dict or isinstance(value, (type, torch.nn.Module)):
        return False
    return any(map(torch.is_tensor, held.values())) and all(isinstance(each, _PLAIN) for each in held.values())


def copied(value: Any) -> Any:
    """The same nested value with copied tensors, since a model may write to its inputs."""
    return map_tensors(torch.clone, value)


def write_back(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Make a tensor hold a value of its shape again. Where many of its elements are one in memory, as after ``expand``,
    torch writes to none of them, so only the first is written."""
    if tensor.layout is torch.strided and 0 in (strides := tensor.stride()):
        once = tuple(slice(None) if stride else slice(1) for stride in strides)
        tensor, value = tensor[once], value[once]
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        tensor.copy_(value)


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same elements; NaN is like NaN."""
    if torch.equal(one, other):
        return True
    alike = (one.shape, one.dtype) == (other.shape, other.dtype)
    return alike and bool(torch.isclose(one, other, 0.0, 0.0, equal_nan=True).all())


def version_of(tensor: torch.Tensor) -> int:
    """The number of writes that torch has counted; it counts none of tensors made in inference mode."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def cast(value: Any, dtype: torch.dtype) -> Any:
    """The same nested value with its floating-point tensors in ``dtype``."""
    return map_tensors(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, value)


def as_sequence(value: Any) -> Sequence[Any]:
    """A list or tuple as it is; anything else as the only item of a tuple."""
    return value if isinstance(value, (list, tuple)) else (value,)
