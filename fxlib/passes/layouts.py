"""Keeping code correct that depends on memory layout, when layers start to return channels-last tensors.

``view`` works on some strides only, and whether ``flatten`` is a view depends on them. Packed and 8-bit convolutions
return channels-last tensors, and the following operators keep that layout. So a tensor that was contiguous where its
layout is read is made contiguous again there.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases, sources_of_memory
from fxlib.passes.calls import library_name, module_of, writes_to
from fxlib.passes.edits import checked

__all__ = ["changed_while_seen", "keep_layouts"]

_READ_LAYOUT = frozenset(("view", "view_as", "as_strided", "stride", "is_contiguous", "data_ptr", "storage_offset"))
_VIEW_OR_COPY = frozenset(("flatten", "reshape", "reshape_as", "ravel", "contiguous", "Flatten"))


def keep_layouts(graph_module: GraphModule) -> GraphModule:
    """Insert ``contiguous()`` where layout is read; changes and returns ``graph_module``.

    Preconditions: call it before convolutions are replaced, with shapes propagated. A tensor that was not contiguous
    before is left alone; without shapes, every tensor whose layout is read is made contiguous.
    """
    check_traced(graph_module, "keep_layouts()")
    graph = graph_module.graph
    if not any(isinstance(module_of(graph_module, n), nn.Conv2d) for n in graph.nodes):
        return graph_module
    written = changed_while_seen(graph_module)
    wanted: dict[Node, None] = {}
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        name = _name(graph_module, node)
        reads = name in _READ_LAYOUT or (name in _VIEW_OR_COPY and node in written)
        if reads and isinstance(source, Node) and (owner := _owner(graph_module, source)) is not None:
            wanted[owner] = None
    for source in wanted:
        with graph.inserting_after(source):
            made = graph.call_method("contiguous", (source,))
        made.meta = dict(source.meta)
        for user in [user for user in source.users if user is not made]:
            user.replace_input_with(source, made)
    return checked(graph_module)


def changed_while_seen(graph_module: GraphModule) -> set[Node]:
    """Every node whose memory an in-place operator visibly changes."""
    memory = Aliases(graph_module)
    visible = [n for n in memory.writes if memory.visible_write(n)]
    return {m for node in visible for each in (node, *writes_to(graph_module, node)) for m in memory.group(each)}


def _name(root: GraphModule, node: Node) -> str:
    """The bare name of the node's callee; for a module, that of its class."""
    module = module_of(root, node)
    if module is not None:
        return type(module).__name__
    return library_name(node.target).partition(".")[0]


def _owner(root: GraphModule, node: Node) -> Node | None:
    """The tensor to make contiguous so that ``node`` has the layout that it had: the one that it is a view of, such as
    the result of a convolution that it is a slice of, or the nearest to that which was contiguous.

    None if it needs none. Without shapes it is ``node`` itself.
    """
    owner = None
    while node.op not in ("placeholder", "get_attr"):
        if _was_contiguous(node):
            owner = node
        sources = () if "tensor_meta" not in node.meta or writes_to(root, node) else sources_of_memory(root, node)
        if len(sources) != 1:
            return owner
        (node,) = sources
    return None


def _was_contiguous(node: Node) -> bool:
    meta: Any = node.meta.get("tensor_meta")
    if meta is None:
        return "type" not in node.meta  # "type" without metadata means that it is not a tensor
    if not hasattr(meta, "stride"):
        return False
    expected = 1
    for size, stride in zip(reversed(meta.shape), reversed(meta.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
