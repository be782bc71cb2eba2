"""The names of targets as people write them, for every user-visible text.

The printed graph and the generated code have names of their own, which torch.fx prescribes (`fxlib.ir.format`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fxlib.ir.format import _get_qualified_name

if TYPE_CHECKING:
    from fxlib.ir.node import Node

__all__ = ["spelling", "target_name"]

# Functions of these modules are bound in torch._C under names with the module's name in front.
_BOUND = re.compile(r"^torch\._C\._(fft|linalg|special|sparse|nested)\.(?:\1_)?")
_ELSEWHERE = {"torch._C._nn.": "torch.nn.functional.", "torch.functional.": "torch.", "_operator.": "operator."}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def target_name(target: object) -> str:
    """``torch.relu``, ``torch.fft.fft2``, ``operator.add``, ``getattr`` for functions; never an address.

    A method's name, and the path of a module or attribute, are returned as they are.
    """
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    if not isinstance(name, str) or not callable(target):
        return _ADDRESS.sub("", repr(target))
    if name == "<lambda>":
        return f"{target.__module__}.{name}"
    try:
        dotted = _BOUND.sub(r"torch.\1.", _get_qualified_name(target))
    except RuntimeError:
        return name
    for bound, written in _ELSEWHERE.items():
        if dotted.startswith(bound):
            return written + dotted.removeprefix(bound)
    return dotted


def spelling(node: Node) -> str:
    """A node's operation as people write it: ``torch.fft.fft2``, ``.real`` for a look-up, ``.clamp()`` for a call of a
    method; the path for a call of a module.
    """
    if node.op == "call_method":
        return f".{node.target}()"
    if node.target is getattr and len(node.args) > 1:
        return f".{node.args[1]}"
    return target_name(node.target)
