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

_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])

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
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)  # type: ignore[return-value]
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])  # type: ignore[return-value]
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())  # type: ignore[return-value]
    if isinstance(a, slice):
        return slice(  # type: ignore[return-value]
            map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn)
        )
    return fn(a)  # type: ignore[return-value]
