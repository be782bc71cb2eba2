"""What nodes may have as targets and arguments: the types, and rebuilding nested ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

import torch

from fxlib.ir.collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from fxlib.ir.node import Node

__all__: list[str] = []

BaseArgumentTypes = Union[  # noqa: UP007
    str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format, torch.layout,
    torch._ops.OpOverload, torch.SymInt, torch.SymBool, torch.SymFloat,
]  # fmt: skip
base_types = BaseArgumentTypes.__args__  # type: ignore[attr-defined]

Target = Union[Callable[..., Any], str]  # noqa: UP007

Argument = Optional[  # noqa: UP045
    Union[
        tuple["Argument", ...],
        Sequence["Argument"],
        Mapping[str, "Argument"],
        slice,
        range,
        "Node",
        BaseArgumentTypes,
    ]
]
ArgumentT = TypeVar("ArgumentT", bound=Argument)

# The six operations, and that of the node which the ring of a graph begins and ends with.
_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])


def wrong_target(op: str, target: Target) -> str:
    """What is wrong with the type of a target; empty if nothing is."""
    wanted, right = ("Callable", callable(target)) if op == "call_function" else ("str", isinstance(target, str))
    return "" if right else f"target {target} has type {torch.typename(target)} but a {wanted} is expected"


# Types that hold no node, looked up by exact type before anything slower is tried.
_ATOMS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range, type(...),
        torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Tensor, torch.nn.Parameter,
        torch._ops.OpOverload,
    }
)  # fmt: skip


def map_aggregate(a: ArgumentT, fn: Callable[[Argument], Argument]) -> ArgumentT:
    """Apply ``fn`` to every leaf of ``a``; tuples, lists, dicts and slices are rebuilt around the results, lists and
    dicts as immutable ones."""
    return rebuilt(a, lambda part: map_aggregate(part, fn), fn)


def rebuilt(a: Any, inner: Callable[[Any], Any], leaf: Callable[[Any], Any]) -> Any:
    """A collection made again of what ``inner`` gives for its parts, a list or dict as an immutable one; ``leaf(a)`` of
    what is no collection."""
    if isinstance(a, (tuple, list)):
        parts = map(inner, a)
        if isinstance(a, list):
            return immutable_list(parts)
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, dict):
        return immutable_dict(zip(a, map(inner, a.values()), strict=True))
    return slice(*map(inner, (a.start, a.stop, a.step))) if isinstance(a, slice) else leaf(a)
