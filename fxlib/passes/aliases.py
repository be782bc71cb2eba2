"""Which nodes of a graph may share memory, and which memory is changed in place. Used by clean-up, reinplacing and
lowering.

Every node has keys, one for each piece of memory that its value may lie in; nodes with a key in common may share
memory. Where example values are given the keys are their storages. Otherwise torch's operator schemas decide: a result
without alias annotation is new memory, an annotated one shares its first argument's memory, and the result of an
operator without schema may share memory with any input.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from fxlib.ir.leaves import storages
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.ir.paths import find
from fxlib.passes.calls import METADATA, may_write, writes_to

__all__ = ["Aliases", "sources_of_memory"]

_SHARES_UNANNOTATED = frozenset({
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
    "sum_to_size", "conj_physical", "atleast_1d", "atleast_2d", "atleast_3d", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "_unsafe_view", "_reshape_alias", "type_as", "cartesian_prod", "broadcast_tensors",
    "meshgrid", "einsum", "histogramdd", "lift", "dequantize", "resize", "resize_as",
    "to_dense", "to_mkldnn",
})  # fmt: skip
"""Operators that may return an input or a view of one although their schema does not say so."""

_VIEW_METHODS = frozenset({
    "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "byte", "cpu", "cuda", "type", "tuple",
    "list", "__getitem__", "requires_grad_", "detach_", "numpy", "__array__",
})  # fmt: skip
_NO_MEMORY = METADATA | {
    "requires_grad", "stride", "item", "tolist", "is_contiguous", "storage_offset",
}  # fmt: skip
"""Attributes and methods whose value is not a tensor."""

_FRESH_FUNCTIONS = frozenset({"interpolate", "normalize", "grid_sample", "upsample", "gumbel_softmax", "fold"})
"""Functions of ``torch.nn.functional`` without an operator of that name that compute new memory."""

_VIEW_MODULES = (
    nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)  # fmt: skip


class Aliases:
    """The memory of one graph.

    Args:
        root: the GraphModule, or the module that the nodes of ``nodes`` belong to.
        nodes: the nodes in order, where they are not those of ``root.graph``.
        values: the value of each node (fake tensors suffice); the keys are then exact.
    """

    def __init__(
        self, root: Any, nodes: Iterable[Node] | None = None, values: Mapping[Node, Any] | None = None
    ) -> None:
        self.root = root
        self.order: dict[Node, int] = {}
        self.writes: list[Node] = []
        """The nodes that change memory that other nodes see, in order."""
        self.may_write: dict[Node, tuple[Node, ...]] = {}
        """The nodes that may change memory unannounced, in order, and the nodes whose memory that is."""
        self._keys: dict[Node, set[Hashable]] = {}
        self._nodes: dict[Hashable, list[Node]] = {}
        self._fused: dict[Hashable, Hashable] = {}
        for index, node in enumerate(root.graph.nodes if nodes is None else nodes):
            self.order[node] = index
            if node.op not in ("placeholder", "get_attr", "output") and writes_to(root, node):
                self.writes.append(node)
            elif unannounced := may_write(root, node):
                self.may_write[node] = unannounced
            self._put(node, self._by_rule(node) if values is None else storages(values.get(node)))

    def keys(self, node: Node) -> set[Hashable]:
        """The pieces of memory that the node's value may lie in."""
        return {self.find(key) for key in self._keys.get(node, ())}

    def group(self, node: Node) -> list[Node]:
        """The nodes that may share memory with ``node``, itself included, in order."""
        members = dict.fromkeys(n for key in self.keys(node) for n in self._nodes[key])
        return sorted(members or [node], key=self.order.__getitem__)

    def may_share(self, a: Node, b: Node) -> bool:
        """Whether the values of the two may lie in the same memory."""
        return not self.keys(a).isdisjoint(self.keys(b))

    def changed(self) -> set[Node]:
        """The nodes whose value, or whose parameters, the graph may change in place, also unannounced."""
        unannounced = (key for targets in self.may_write.values() for target in targets for key in self.keys(target))
        written = self._written().union(unannounced)
        found = {node for node in self.order if not written.isdisjoint(self.keys(node))}
        if any(not isinstance(key, Node) for key in written):
            found |= {n for n in self.order if n.op == "call_module" and not written.isdisjoint(self._state(n))}
        return found

    def changed_state(self) -> set[Node]:
        """The nodes that read parameters or buffers, of their module or as an argument, that an in-place operator of
        the graph may change.
        """
        written = self._written()
        state = {node for node in self.order if node.op == "get_attr" and not written.isdisjoint(self.keys(node))}
        found = {user for node in state for user in node.users}
        return found | {n for n in self.order if n.op == "call_module" and not written.isdisjoint(self._state(n))}

    def changes_state(self) -> bool:
        """Whether an in-place operator of the graph may change parameters or buffers."""
        return any(not isinstance(key, Node) for key in self._written())

    def visible_write(self, node: Node) -> bool:
        """Whether ``node``'s in-place write is visible elsewhere, so that a functional copy would differ."""
        place = self.order[node]
        for member in self.group(node):
            if member.op in ("placeholder", "get_attr"):
                return True
            if self.order[member] < place and any(self.order[user] > place for user in member.users):
                return True
        return False

    def views_read_after(self, call: Node) -> list[Node]:
        """What the graph made before ``call``, a node of `may_write`, of the same memory, and reads after it."""
        place = self.order[call]
        return [
            member
            for member in self.group(call)
            if self.order[member] < place
            and member.op not in ("placeholder", "get_attr")
            and any(self.order[user] > place for user in member.users)
        ]

    def readers(self, node: Node) -> list[Node]:
        """Every node that reads memory of ``node``'s group, as an argument or in the parameters of its module."""
        found = dict.fromkeys(user for member in self.group(node) for user in member.users)
        state = {key for key in self.keys(node) if not isinstance(key, Node)}
        if state:
            found |= dict.fromkeys(
                n for n in self.order if n.op == "call_module" and not state.isdisjoint(self._state(n))
            )
        return list(found)

    def dead_after(self, node: Node, reader: Node) -> bool:
        """Whether ``reader`` may overwrite the value of ``node``: memory that the graph made itself, which no alias
        is read from later."""
        now = self.order[reader]
        for member in self.group(node):
            if member.op in ("placeholder", "get_attr"):
                return False
            if any(user is not reader and self.order.get(user, now + 1) > now for user in member.users):
                return False
        return True

    def find(self, key: Hashable) -> Hashable:
        """The key that represents ``key`` after memory was fused."""
        while key in self._fused:
            key = self._fused[key]
        return key

    def insert(self, node: Node, like: Node, place: Node) -> None:
        """Insert a new node at the place of another; its value shares the memory of ``like``."""
        self.order[node] = self.order[place]
        self._put(node, self.keys(like))

    def fuse(self, into: Node, node: Node) -> None:
        """The value of ``node`` now shares the memory of ``into``."""
        for target in self.keys(into):
            for key in self.keys(node) - {target}:
                self._nodes[target] += self._nodes.pop(key)
                self._fused[key] = target

    def _put(self, node: Node, keys: set[Hashable]) -> None:
        self._keys[node] = keys
        for key in keys:
            self._nodes.setdefault(key, []).append(node)

    def _by_rule(self, node: Node) -> set[Hashable]:
        if node.op == "output":
            return set()
        if node.op == "get_attr":
            value = find(self.root, str(node.target))
            return storages(value) or {("attribute", node.target)}
        written = writes_to(self.root, node)
        sources = written or sources_of_memory(self.root, node)
        found = {key for source in sources for key in self._keys.get(source, ())}
        only_view = bool(written) or (len(sources) == 1 and bool(found))
        return found if only_view else {*found, node}

    def _written(self) -> set[Hashable]:
        return {key for node in self.writes for target in writes_to(self.root, node) for key in self.keys(target)}

    def _state(self, node: Node) -> set[Hashable]:
        module: nn.Module = self.root.get_submodule(str(node.target))
        return {self.find(k) for k in storages([*module.parameters(), *module.buffers()])}


def sources_of_memory(root: nn.Module, node: Node) -> tuple[Node, ...]:
    """The inputs that the node's value may share memory with; empty if it is certainly new memory.

    In-place operators are handled by `writes_to`, not here.
    """
    kind = "unknown"
    first = node.args[0] if node.args else node.kwargs.get("input", node.kwargs.get("self"))
    if node.op == "call_module":
        kind = _kind_of_module(root.get_submodule(str(node.target)))
    elif node.op == "call_method":
        kind = _kind_of_name(str(node.target), True)
    elif node.op == "call_function":
        kind = _kind_of_function(node)
    elif node.op == "placeholder":
        return ()
    if kind == "fresh":
        return ()
    if kind == "view" and isinstance(first, Node):
        return (first,)
    return tuple(node.all_input_nodes)


def _kind_of_module(module: nn.Module) -> str:
    altered = is_altered(module)
    if not altered and getattr(module, "makes_new_memory", False):
        return "fresh"
    if altered or not type(module).__module__.startswith("torch.nn.modules."):
        return "unknown"
    if isinstance(module, _VIEW_MODULES):
        return "view"
    return "unknown" if module._modules and not isinstance(module, nn.MultiheadAttention) else "fresh"


def _kind_of_function(node: Node) -> str:
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return _kind_of_schema(schema)
    module, name = getattr(target, "__module__", None) or "", getattr(target, "__name__", "")
    if target is getattr:
        known = len(node.args) > 1 and node.args[1] in _NO_MEMORY
        return "fresh" if known else "view"
    if module == "_operator":
        return "view" if name in ("getitem", "pos") else "fresh"
    if module == "math":
        return "fresh"
    if target in (tuple, list):
        return "view"
    if getattr(target, "makes_new_memory", False):
        return "fresh"
    if not module and not hasattr(torch.Tensor, name):
        return "unknown"
    if module and module.split(".")[0] != "torch":
        return "unknown"
    if module == "torch.nn.functional" and name in _FRESH_FUNCTIONS:
        return "fresh"
    return _kind_of_name(name, False)


@lru_cache(maxsize=1024)
def _kind_of_name(name: str, method: bool) -> str:
    """Decided by the schemas of all overloads of the operators of that name."""
    if method and (name in _NO_MEMORY or name in _VIEW_METHODS):
        return "fresh" if name in _NO_MEMORY else "view"
    if name in _SHARES_UNANNOTATED:
        return "unknown"
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return "unknown"
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    kinds = {_kind_of_schema(schema) for schema in schemas if not schema.is_mutable}
    if not kinds or "unknown" in kinds:
        return "unknown"
    return "view" if "view" in kinds else "fresh"


def _kind_of_schema(schema: torch.FunctionSchema) -> str:
    if schema.name.partition("::")[2] in _SHARES_UNANNOTATED:
        return "unknown"
    return "view" if any(result.alias_info is not None for result in schema.returns) else "fresh"
