"""How an operation is called where people write it; torch's functions know themselves by the names of its binding."""

from __future__ import annotations

import re

from ..graph_module import GraphModule
from ..node import Node
from .values import attribute

# Functions of these modules are bound in torch._C under names with the module's name in front.
_BOUND = re.compile(r"torch\._C\._(fft|linalg|special|sparse|nested)\.(?:\1_)?(\w+)")


def spelling(gm: GraphModule, node: Node) -> str:
    """``torch.fft.fft2`` for a call of that function, ``.real`` for a look-up, ``Conv2d`` for such a module's."""
    if node.op == "call_module":
        return type(attribute(gm, node.target)).__name__
    if node.target is getattr and len(node.args) > 1:
        return f".{node.args[1]}"
    name = str(node._pretty_print_target(node.target))
    if node.op == "call_method":
        return f".{name}()"
    name = _BOUND.sub(r"torch.\1.\2", name)
    return name.replace("torch._C._nn.", "torch.nn.functional.").removeprefix("_").removeprefix("builtins.")
