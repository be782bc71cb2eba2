"""How an operation is called where people write it; torch's functions know themselves by the names of its binding."""

from __future__ import annotations

import re

from fxlib.ir.node import Node

# Functions of these modules are bound in torch._C under names with the module's name in front.
_BOUND = re.compile(r"^torch\._C\._(fft|linalg|special|sparse|nested)\.(?:\1_)?")
_ELSEWHERE = (("torch._C._nn.", "torch.nn.functional."), ("torch.functional.", "torch."), ("_operator.", "operator."))


def spelling(node: Node) -> str:
    """``torch.fft.fft2`` for a call of that function, ``.real`` for a look-up, ``.clamp()`` for a call of a method; the
    path for a call of a module."""
    if node.op == "call_module":
        return str(node.target)
    if node.target is getattr and len(node.args) > 1:
        return f".{node.args[1]}"
    name = str(node._pretty_print_target(node.target))
    if node.op == "call_method":
        return f".{name}()"
    name = _BOUND.sub(r"torch.\1.", name)
    for bound, written in _ELSEWHERE:
        if name.startswith(bound):
            return written + name.removeprefix(bound)
    return name.removeprefix("builtins.")
