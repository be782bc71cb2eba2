"""Floating-point operations of a node, from the metadata that its trace left.  Runs in the user's interpreter."""

from __future__ import annotations

from typing import Any

from fxlib.node import map_arg
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


def _value(node: Any) -> Any:
    return node.meta["val"]
