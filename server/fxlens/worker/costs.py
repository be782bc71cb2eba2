"""Operations and predicted times of nodes, from the metadata that their trace left.  Runs in the user's interpreter."""

from __future__ import annotations

from typing import Any

from fxlib.ir.node import map_arg
from fxlib.passes.flops import flops_of, kind_of
from fxlib.shapes.tensor_meta import TensorMeta


def flops(node: Any, root: Any) -> int | None:
    """A multiplication and its addition count two; None where counting would need what the trace does not tell."""
    out = node.meta.get("val")
    if type(out) is not TensorMeta or node.op not in ("call_function", "call_method", "call_module"):
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
        # The metadata of a partial graph has gaps, and sizes that are symbols do not multiply to numbers.
        return None


def predict(rendered: list[dict[str, Any]], graph: Any, root: Any, device: str) -> None:
    """Gives the nodes of a record ``predicted``: the time that they take at least on a device of the data sheets."""
    from fxlib.passes.cost import _node_cost
    from fxlib.passes.devices import DEVICES

    if graph is None or device not in DEVICES:
        return
    nodes = {node.name: node for node in graph.nodes}
    for told in rendered:
        node = nodes[told["name"]]
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        try:
            args, kwargs = map_arg(node.args, _value), map_arg(node.kwargs, _value)
            cost = _node_cost(root, node, args, kwargs, node.meta["val"], DEVICES[device])
        except Exception:
            continue  # as for operations: what the trace does not tell is not counted
        if cost.seconds is not None:
            told["predicted"] = {"device": device, "seconds": cost.seconds}


def _value(node: Any) -> Any:
    return node.meta["val"]
