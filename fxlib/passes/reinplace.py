"""Reinplacing: in a functional ATen graph, operators write into an input that is not needed any more.

``b = a.add(c)`` becomes ``a.add_(c)`` where that has no visible effect: ``a`` is not an input or parameter of the
program, has the result's shape and dtype and no overlapping memory, shares no memory with another argument, and neither
it nor any alias is used later, except by the scatter that functionalization leaves for a mutated view (``select`` and
``select_scatter``, likewise ``slice``, ``diagonal``, ``as_strided``), which is then removed.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.interop.convert import from_torch_fx
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.node import Node, map_arg
from fxlib.passes.aliases import Aliases
from fxlib.passes.edits import checked, yield_to
from fxlib.passes.shape_prop import fake_inputs, fake_parameters
from fxlib.transform.interpreter import Interpreter

__all__ = ["reinplace"]

aten = torch.ops.aten

VIEW_OF_SCATTER = {
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.as_strided_scatter.default: aten.as_strided.default,
}
_READS_STRIDES = {
    aten.view.default,
    aten.view.dtype,
    aten._unsafe_view.default,
    aten.as_strided.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten._reshape_alias.default,
    aten.unfold.default,
}
_READS_OFFSET = {aten.view.dtype, aten.as_strided.default, aten.view_as_complex.default}
_CHANGES_SIZE = frozenset(("resize", "resize_as", "resize_as_sparse", "set"))


def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """Turn functional operators of ``gm`` into in-place ones where that is sound; changes and returns ``gm``.

    Args:
        gm: a functional ATen graph, as ``make_fx(functionalize(f))`` gives it; a module of torch.fx is not
            changed, and an fxlib one is returned.
        sample_args: inputs, used to find which values alias; only metadata is used.
    """
    check_traced(gm, "reinplace()")
    if isinstance(gm.graph, foreign_graph):
        gm = from_torch_fx(gm)
    memory = _Memory(gm, sample_args)
    undone: set[Node] = set()  # scatters whose write an earlier in-place operator has already done
    for node in list(gm.graph.nodes):
        self_arg = node.args[0] if node.args else None
        if node.op != "call_function" or not isinstance(self_arg, Node):
            continue
        if node in undone and memory.holds_already(node):
            memory.fuse(self_arg, node)
            yield_to(node, self_arg)
            continue
        view_op, in_place = VIEW_OF_SCATTER.get(node.target), in_place_variant(node.target)
        if view_op is in_place is None or not memory.may_hold(self_arg, node):
            continue
        inverses = memory.inverses_among_later_uses(node, self_arg)
        if inverses is None or memory.shares_argument(node, self_arg):
            continue
        undone.update(inverses)
        if view_op is not None:
            _write_window(memory, node, view_op)
        memory.fuse(self_arg, node)
        node.replace_all_uses_with(self_arg)
        if view_op is not None:
            gm.graph.erase_node(node)
        else:
            node.target = in_place
    return checked(gm)


def _write_window(memory: _Memory, scatter: Node, view_op: Any) -> None:
    """Replace a scatter by a copy into the view of its first argument."""
    base, value, *where = scatter.args
    with scatter.graph.inserting_before(scatter):
        window = scatter.graph.call_function(view_op, (base, *where), dict(scatter.kwargs))
        written = scatter.graph.call_function(aten.copy_.default, (window, value))
    for made in (window, written):
        memory.add(made, memory.values[value], base, scatter)  # type: ignore[index, arg-type]


def in_place_variant(target: object) -> torch._ops.OpOverload | None:
    """The overload that computes the same into its first argument, or None."""
    if not isinstance(target, torch._ops.OpOverload) or is_view(target) or target._schema.is_mutable:
        return None
    namespace, _, name = target._schema.name.partition("::")
    if name in _CHANGES_SIZE or namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, f"{name}_", None)
    if packet is None:
        return None
    wanted = _parameters(target._schema)
    overloads = (getattr(packet, name) for name in packet.overloads())
    found = next((each for each in overloads if _parameters(each._schema) == wanted), None)
    return found if found is not None and _writes(found._schema.arguments[0]) is True else None


def _parameters(schema: torch.FunctionSchema) -> list[tuple[str, str, bool]]:
    return [(each.name, str(each.type), each.kwarg_only) for each in schema.arguments]


def _writes(declared: torch.Argument) -> bool | None:
    """Whether an argument or result is written to; None if it shares no memory."""
    return None if declared.alias_info is None else declared.alias_info.is_write


def is_view(target: object) -> bool:
    """Whether results share memory with the first argument without writing to it."""
    if target is operator.getitem:
        return True
    schema = getattr(target, "_schema", None)
    return schema is not None and any(_writes(result) is False for result in schema.returns)


def overlaps(t: torch.Tensor) -> bool:
    """Whether two elements may share memory (conservative: True unless the strides clearly exclude it)."""
    reach = 1
    for stride, size in sorted((st, si) for st, si in zip(t.stride(), t.shape, strict=False) if si > 1):
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


class _Memory:
    """Every node's fake value, its storages, and the in-place writes to them."""

    def __init__(self, gm: GraphModule, sample_args: tuple[Any, ...]) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.values = _fake_values(gm, sample_args, self.mode)
        self.aliases = Aliases(gm, values=self.values)
        self.position = self.aliases.order
        self.written_from: dict[Node, Node] = {}
        self.protected: set[Any] = set()
        for op in ("placeholder", "get_attr"):
            self.protected.update(*map(self.aliases.keys, gm.graph.find_nodes(op=op)))

    def add(self, node: Node, value: Any, like: Node, place: Node) -> None:
        self.values[node] = value
        self.aliases.insert(node, like, place)

    def fuse(self, self_arg: Node, node: Node) -> None:
        """The result and its views now share the memory of its first argument."""
        self.written_from[node] = self_arg
        self.aliases.fuse(self_arg, node)
        self._move(node, self.values.get(self_arg))

    def _move(self, node: Node, value: Any) -> None:
        self.values[node] = value
        moved = {node}
        for view in sorted(self.aliases.group(node), key=self.position.__getitem__):
            source = view.args[0] if view.args else None
            if view not in moved and is_view(view.target) and isinstance(source, Node) and source in moved:
                self.values[view] = self._view(view.target, self.values[source], view.args[1:], view.kwargs)
                moved.add(view)

    def _view(self, view_op: Any, value: Any, args: Any, kwargs: Any) -> Any:
        """The view of a fake value; None if it cannot be computed."""
        given = map_arg((tuple(args), dict(kwargs)), self.values.get)
        if not isinstance(value, (torch.Tensor, list, tuple)):
            return None
        try:
            with self.mode, torch.no_grad():
                return view_op(value, *given[0], **given[1])
        except (RuntimeError, TypeError, IndexError):
            return None

    def may_hold(self, self_arg: Node, node: Node) -> bool:
        """Checks of metadata, overlap and program inputs: (1a) and (1b)."""
        held, result = self.values.get(self_arg), self.values.get(node)
        if not (torch.is_tensor(held) and torch.is_tensor(result)) or overlaps(held):
            return False
        if (held.shape, held.dtype, held.device) != (result.shape, result.dtype, result.device):
            return False
        if self.aliases.keys(self_arg) & {self.aliases.find(k) for k in self.protected}:
            return False
        if _strides(held) != _strides(result):
            return not self._read_later(node, _READS_STRIDES)
        return held.storage_offset() == result.storage_offset() or not self._read_later(node, _READS_OFFSET)

    def _read_later(self, node: Node, views: set[Any]) -> bool:
        """Whether one of ``views`` is later applied to the result, which makes its changed layout visible."""
        return any(
            user.target in views
            for alias in self.aliases.group(node)
            for user in alias.users
            if self.position.get(user, -1) > self.position[node]
        )

    def shares_argument(self, node: Node, self_arg: Node) -> bool:
        """Whether writing to the first argument changes another one before it is read: (1c) and (2b).

        Disjoint parts of the same memory do not matter, nor does the same part if the operator reads each element only
        where it writes it.
        """
        held = self.values.get(self_arg)
        pointwise = torch.Tag.pointwise in node.target.tags and node.target is not aten.copy.default
        for other in tree_leaves((list(node.args[1:]), dict(node.kwargs))):
            if not isinstance(other, Node) or not self.aliases.may_share(other, self_arg):
                continue
            value = self.values.get(other)
            exact = self.aliases.keys(other) == self.aliases.keys(self_arg) and len(self.aliases.keys(other)) == 1
            apart = other is not self_arg and (_apart(held, value) or (pointwise and _same_layout(held, value)))
            if not (exact and apart):
                return True
        return False

    def inverses_among_later_uses(self, node: Node, self_arg: Node) -> list[Node] | None:
        """The scatters that undo views of the first argument later; None if an alias of it has other uses: (2)."""
        now = self.position[node]
        inverses: dict[Node, None] = {}
        for alias in self.aliases.group(self_arg):
            for user in alias.users:
                if self.position.get(user, -1) <= now or user is node:
                    continue
                if is_view(user.target) and user.op == "call_function":
                    continue
                if not self._is_inverse(user, alias, self_arg):
                    return None
                inverses[user] = None
        return list(inverses)

    def holds_already(self, scatter: Node) -> bool:
        """Whether the scatter's source already is the memory that it would write to: (5)."""
        source, base = scatter.args[1], scatter.args[0]
        if not isinstance(source, Node) or not isinstance(base, Node):
            return False
        return self.aliases.keys(source) == self.aliases.keys(base) and _same_layout(
            self.values.get(source), self._window(scatter)
        )

    def _window(self, scatter: Node) -> Any:
        """The part of its first argument that a scatter writes to."""
        base: Any = scatter.args[0]
        return self._view(VIEW_OF_SCATTER[scatter.target], self.values.get(base), scatter.args[2:], scatter.kwargs)

    def _is_inverse(self, scatter: Node, alias: Node, self_arg: Node) -> bool:
        """``scatter(alias, x, args)`` where ``self_arg`` lies within ``view(alias, args)``, and writes all of it."""
        if scatter.op != "call_function" or scatter.target not in VIEW_OF_SCATTER:
            return False
        if scatter.args[0] is not alias or alias in scatter.args[1:]:
            return False
        window = self._window(scatter)
        part: Any = self_arg
        while isinstance(part, Node):
            if _same_layout(self.values.get(part), window) and self.aliases.keys(part) == self.aliases.keys(alias):
                return True
            part = self._source(part)
        return False

    def _source(self, node: Node) -> Node | None:
        if node in self.written_from:
            return self.written_from[node]
        source = node.args[0] if node.args else None
        return source if is_view(node.target) and isinstance(source, Node) else None


def _apart(one: object, other: object) -> bool:
    """Whether two views of one storage have no byte in common (conservative)."""
    if not (torch.is_tensor(one) and torch.is_tensor(other)):
        return False
    first, second = sorted((_extent(one), _extent(other)), key=lambda extent: extent.start)
    return first.stop <= second.start


def _extent(t: torch.Tensor) -> range:
    """The bytes from the first element of a tensor to its last."""
    start = int(t.storage_offset())
    last = start + sum(stride * (size - 1) for stride, size in zip(t.stride(), t.shape, strict=True))
    return range(start * t.element_size(), (last + 1) * t.element_size())


def _same_layout(one: object, other: object) -> bool:
    """Whether two views of one storage are the same view."""
    return torch.is_tensor(one) and torch.is_tensor(other) and _layout(one) == _layout(other)


def _layout(t: torch.Tensor) -> tuple[Any, ...]:
    return t.shape, t.dtype, _strides(t), t.storage_offset()


def _strides(t: torch.Tensor) -> list[int]:
    return [stride for stride, size in zip(t.stride(), t.shape, strict=False) if size > 1]


def _fake_values(gm: GraphModule, sample_args: tuple[Any, ...], mode: FakeTensorMode) -> dict[Node, Any]:
    """Every node's result on fake copies of the inputs; aliasing among inputs is kept."""
    inputs = fake_inputs(mode, sample_args)
    recorder = _Recorder(gm)
    with fake_parameters(gm, mode), mode, torch.no_grad():
        recorder.run(*inputs)
    return recorder.values


class _Recorder(Interpreter):
    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        result = self.values[n] = super().run_node(n)
        return result
