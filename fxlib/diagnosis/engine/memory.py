"""Which values of a graph are the same memory, as views, in-place results and layers without effect are: torch is asked
on tensors without data."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch.nn.modules.dropout import _DropoutNd

from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.values import UNKNOWN, Unknown
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node, map_arg
from fxlib.ir.objects import home_of
from fxlib.shapes import TensorMeta, map_values
from fxlib.shapes.fake import fake_mode

__all__ = ["Group", "Memory", "Region", "meet"]

_HOMES = ("builtins", "_operator", "torch", "torch.functional", "torch.nn.functional")
_OF_TORCH = ("torch._ops", "torch._C")
_LAYERS = "torch.nn.modules."


class Region(NamedTuple):
    """The memory of a tensor: a part of that of the leaf ``leaf`` of a value. ``offset`` and strides in bytes."""

    leaf: int
    offset: int
    dims: tuple[tuple[int, int], ...]
    """Size and stride of each dimension."""

    @classmethod
    def of(cls, leaf: int, tensor: torch.Tensor) -> Region:
        width = tensor.itemsize
        dims = zip((*tensor.shape, width), (*(each * width for each in tensor.stride()), 1), strict=True)
        return cls(leaf, int(tensor.storage_offset()) * width, tuple(dims))

    def meets(self, other: Region) -> bool:
        """Whether both may have a byte in common: they have none if they are apart along a dimension of the memory."""
        if self.leaf != other.leaf:
            return False
        strides = sorted({stride for _, stride in self.dims + other.dims if stride}, reverse=True)
        ours, theirs = self._along(strides), other._along(strides)
        if ours is None or theirs is None:
            return True
        return all(a <= d and c <= b for (a, b), (c, d) in zip(ours, theirs, strict=True))

    def _along(self, strides: list[int]) -> list[tuple[int, int]] | None:
        """The first and last index along each of these strides, from the largest to the smallest; None if the indices
        along one of them reach into those of a larger one."""
        found, rest = [], self.offset
        for stride in strides:
            first, rest = divmod(rest, stride)
            found.append((first, first + sum(size - 1 for size, own in self.dims if own == stride)))
        reach = 0
        for at in range(len(strides) - 1, 0, -1):
            reach += found[at][1] * strides[at]
            if reach >= strides[at - 1]:
                return None
        return found


Group = dict[Node, dict[int, Region]]
"""All nodes with memory of one value, their tensors by the number of the leaf, in the order of the graph."""


def meet(some: dict[int, Region], others: dict[int, Region]) -> bool:
    return any(one.meets(other) for one in some.values() for other in others.values())


class _Shared(NamedTuple):
    """A tensor of a result that has memory of an argument: of which node's value, and which part of that."""

    source: Node
    region: Region


class Memory:
    """Answers for one run. ``unsure`` once a node was met of which torch cannot tell, such as a call of a function of
    the user's."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.unsure = False
        self._shared: dict[Node, dict[int, _Shared]] = {}
        self._groups: dict[Node, Group] = {}

    def owner(self, node: Node) -> Node:
        """The value that a node's tensor is memory of."""
        leaf = 0
        while (found := self._of(node).get(leaf)) is not None:
            node, leaf = found.source, found.region.leaf
        return node

    def group(self, owner: Node) -> Group:
        """The nodes with memory of an owner, itself among them."""
        found = self._groups.get(owner)
        if found is not None:
            return found
        found = self._groups[owner] = {owner: self._whole(owner)}
        todo = [owner]
        while todo:
            alias = todo.pop()
            for user in alias.users:
                shared = self._of(user).items()
                regions = {leaf: each for leaf, each in shared if each.region.leaf in found.get(each.source, ())}
                if regions and user not in found:
                    found[user] = {leaf: _within(found[each.source], each.region) for leaf, each in regions.items()}
                    todo.append(user)
        return found

    def _whole(self, owner: Node) -> dict[int, Region]:
        found: dict[int, Region] = {}
        count = itertools.count()

        def note(leaf: Any) -> Any:
            at = next(count)
            if isinstance(leaf, TensorMeta):
                found[at] = Region.of(at, leaf.blank("meta"))
            return leaf

        map_values(self.run.values.known.get(owner, UNKNOWN), note)
        return found

    def _of(self, node: Node) -> dict[int, _Shared]:
        """The tensors of a node's value that have memory of its arguments."""
        if node not in self._shared:
            self._shared[node] = self._asked(node) or {}
        return self._shared[node]

    def _asked(self, node: Node) -> dict[int, _Shared] | None:
        if node.op in ("placeholder", "get_attr", "output"):
            return None
        call = self._call(node)
        if call is None:
            return None
        for fake in (False, True):  # a few need to know the device, as `x.to("cpu")`
            try:
                with self.run.aside(), torch.no_grad():
                    if fake:
                        with fake_mode():
                            return self._run(node, call, None)
                    return self._run(node, call, torch.device("meta"))
            except Exception:
                continue
        self.unsure = True
        return None

    def _call(self, node: Node) -> Callable[..., Any] | None:
        """What computes the value without data; None if that is new memory."""
        target: Any = node.target
        if node.op == "call_method":
            return lambda owner, *args, **kwargs: getattr(owner, target)(*args, **kwargs)
        if node.op == "call_module":
            layer = self.run.module(node)
            if isinstance(layer, _DropoutNd):
                return lambda input: input  # in eval mode it has no effect
            own = type(layer).__module__.startswith(_LAYERS) and not is_altered(layer)
            if own and any(each._parameters or each._buffers for each in layer.modules()):
                return None
            if own:
                return lambda *args, **kwargs: type(layer).forward(layer, *args, **kwargs)
        else:
            home = home_of(target)
            if home == "_operator" and target is not operator.getitem and not _works_in_place(target):
                return None
            if home in _HOMES or home.startswith(_OF_TORCH):
                return target
        self.unsure = True
        return None

    def _run(self, node: Node, call: Callable[..., Any], device: torch.device | None) -> dict[int, _Shared]:
        given: dict[Hashable, tuple[Node, int]] = {}
        alive: list[torch.Tensor] = []

        def blank(used: Node) -> Any:
            value = self.run.values.known.get(used, UNKNOWN)
            if type(value) is Unknown:
                raise LookupError(used.name)
            count = itertools.count()

            def one(leaf: Any) -> Any:
                at = next(count)
                if not isinstance(leaf, TensorMeta):
                    return leaf
                alive.append(leaf.blank(leaf.device if device is None else device))
                given[_address(alive[-1])] = used, at
                return alive[-1]

            return map_values(value, one)

        args, kwargs = map_arg(node.args, blank), map_arg(node.kwargs, blank)
        found: dict[int, _Shared] = {}
        count = itertools.count()

        def note(leaf: Any) -> None:
            at = next(count)
            source = given.get(_address(leaf)) if isinstance(leaf, torch.Tensor) else None
            if source is not None:
                found[at] = _Shared(source[0], Region.of(source[1], leaf))

        map_values(call(*args, **kwargs), note)
        return found


def _within(source: dict[int, Region], part: Region) -> Region:
    """A part of a tensor that is itself a part."""
    whole = source[part.leaf]
    return Region(whole.leaf, whole.offset + part.offset, part.dims)


def _works_in_place(function: Any) -> bool:
    """Whether a function of the module ``operator`` is the one of an augmented assignment."""
    name = function.__name__
    return bool(name.startswith("i") and hasattr(operator, name[1:]))


def _address(tensor: torch.Tensor) -> Hashable:
    return tensor.untyped_storage()._cdata
