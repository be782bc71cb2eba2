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

# The six operations, and that of the root, which links the first and last node of a graph.
_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])


CALLS = {op for op in _legal_ops if op.startswith("call_")}
"""The operations that call something."""


def wrong_target(op: str, target: Target) -> str:
    """The error text for a target whose type does not fit its operation."""
    wanted = "Callable" if op == "call_function" else "str"
    return f"target {target} has type {torch.typename(target)} but a {wanted} is expected"


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
    return rebuilt(a, map_aggregate, fn) if isinstance(a, COLLECTIONS) else fn(a)  # type: ignore[return-value]


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


COLLECTIONS = (tuple, list, dict, slice)


def rebuilt(a: Any, inner: Callable[[Any, Any], Any], context: Any) -> Any:
    """One of ``COLLECTIONS``, rebuilt with ``inner(part, context)`` for each part; lists and dicts become immutable."""
    if isinstance(a, dict):
        return immutable_dict([(key, inner(part, context)) for key, part in a.items()])
    if isinstance(a, slice):
        return slice(*[inner(part, context) for part in (a.start, a.stop, a.step)])
    parts = [inner(part, context) for part in a]
    if isinstance(a, list):
        return immutable_list(parts)
    return type(a)(*parts) if is_named_tuple(a) else tuple(parts)
