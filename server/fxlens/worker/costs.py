"""Operations and predicted times of nodes, from their trace's metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fxlens.record import Node, Predicted

_CALLS = ("call_function", "call_method", "call_module")


def flops(node: Any, root: Any) -> int | None:
    """A multiply-add counts as two; None if the trace has too little information."""
    from fxlib.ir.node import map_arg
    from fxlib.passes.flops import flops_of, kind_of
    from fxlib.shapes.tensor_meta import TensorMeta

    out = node.meta.get("val")
    if type(out) is not TensorMeta or node.op not in _CALLS:
        return None
    try:
        kind = kind_of(root, node)
        if kind == "elementwise":
            return 0
        if kind == "other":
            return None
        args = map_arg(node.args, _value)
        kwargs = map_arg(node.kwargs, _value)
        return int(flops_of(root, node, args, kwargs, out))
    except Exception:
        # A partial graph's metadata has gaps, and symbolic sizes do not multiply to numbers.
        return None


def predict(nodes: Sequence[Node], graph: Any, root: Any, device: str) -> Sequence[Node]:
    """The nodes with ``predicted``: their time by a device's data sheet, with the kernel launch."""
    from fxlib.passes.devices import DEVICES

    if graph is None or device not in DEVICES:
        return nodes
    known = {node.name: node for node in graph.nodes}
    return [{**each, "predicted": _prediction(known[each["name"]], root, device)} for each in nodes]


def _prediction(node: Any, root: Any, device: str) -> Predicted | None:
    from fxlib.ir.node import map_arg
    from fxlib.passes.cost import _node_cost
    from fxlib.passes.devices import DEVICES

    if node.op not in _CALLS:
        return None
    try:
        args, kwargs = map_arg(node.args, _value), map_arg(node.kwargs, _value)
        seconds = _node_cost(root, node, args, kwargs, node.meta["val"], DEVICES[device]).seconds
    except Exception:
        return None  # the trace has too little information
    return None if seconds is None else {"device": device, "seconds": seconds}


def _value(node: Any) -> Any:
    return node.meta["val"]
