"""What operators do to gradual tensor types: functions from types to types, or to a TypeError."""

from __future__ import annotations

import math
from typing import Any

import sympy

from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from .unification import Var

__all__ = [
    "adaptiveavgpool2d_check",
    "broadcast_types",
    "calculate_out_dimension",
    "expand_to_tensor_dim",
    "flatten_check",
    "get_greatest_upper_bound",
    "linear_check",
    "maxpool2d_check",
    "reshape_type",
]


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """``t`` as a type of tensors with ``n`` dimensions: itself, or ``n`` unknown ones for ``Dyn``.

    Raises:
        TypeError: ``t`` has another number of dimensions, or is no type of tensors.
    """
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot match the type {t}")
    if len(t.__args__) != n:
        raise TypeError(f"Cannot extend tensor. Tensor {t} has rank {len(t.__args__)}. It should have rank {n}")
    return t


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Both types with as many dimensions, and each 1 replaced by the other's size; unknown types as they are.

    Raises:
        TypeError: one of them is neither unknown nor a type of tensors.
    """
    if any(t == Dyn or isinstance(t, Var) for t in (t1, t2)):
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    rank = max(len(t1.__args__), len(t2.__args__))
    padded = [[1] * (rank - len(t.__args__)) + list(t.__args__) for t in (t1, t2)]
    pairs = [(b if a == 1 else a, a if b == 1 else b) for a, b in zip(*padded, strict=True)]
    return TensorType(tuple(a for a, _ in pairs)), TensorType(tuple(b for _, b in pairs))


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """What is known of a value that has both types; ``None`` for types of something other than tensors.

    Raises:
        TypeError: no value has both.
    """
    if type1 == Dyn or type2 == Dyn:
        return type2 if type1 == Dyn else type1
    if not (isinstance(type1, TensorType) and isinstance(type2, TensorType)):
        return None
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    pairs = zip(type1.__args__, type2.__args__, strict=True)
    return TensorType(tuple(a if is_more_precise(a, b) else b for a, b in pairs))


def reshape_type(given: Any, wanted: Any, node: Any) -> TensorType:
    """The type of a tensor reshaped to ``wanted``, a sequence of sizes with -1 for one that follows from the others.

    Raises:
        TypeError: the sizes do not divide each other.
    """
    result = TensorType([Dyn if size == -1 else size for size in wanted])
    if given == Dyn:
        return result
    if isinstance(given, TensorType):
        have, want = (math.prod(size for size in t.__args__ if size != Dyn) for t in (given, result))
        open_given, open_result = (Dyn in t.__args__ for t in (given, result))
        # What is unknown on one side is a factor of what that side lacks.
        fits = have == want
        fits |= open_result and want != 0 and have % want == 0
        fits |= open_given and have != 0 and want % have == 0
        if fits:
            return result
    raise TypeError(f"Cannot reshape in node {node} from {given} to {result}")


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """The size that a convolution or pooling gives for the size ``d_in``, as the documentation of ``Conv2d`` has it.

    Args:
        d_in: a number, ``Dyn``, or a sympy expression.
        index: 0 for the height, 1 for the width.

    Raises:
        TypeError: ``d_in`` is something else.
    """
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, (int, sympy.Basic)):
        raise TypeError(f"{d_in} in {module_instance} must be a number or Dyn. Received {type(d_in)}")
    stride, dilation, kernel = (
        _of(value, index) for value in (module_instance.stride, module_instance.dilation, module_instance.kernel_size)
    )
    padding = module_instance.padding
    if isinstance(padding, str):
        total = dilation * (kernel - 1) if padding == "same" else 0
    else:
        total = 2 * _of(padding, index)
    room = d_in + total - dilation * (kernel - 1) - 1
    if isinstance(d_in, int):
        return room // stride + 1
    return sympy.floor(room / stride) + 1


def _of(value: Any, index: int) -> int:
    return value[index] if isinstance(value, (tuple, list)) else value


def maxpool2d_check(typ: Any, module_instance: Any) -> TensorType:
    """The type after a ``MaxPool2d``, of tensors with 3 or 4 dimensions.

    Raises:
        TypeError: another number of dimensions.
    """
    sizes = list(typ.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    return TensorType((*sizes[:-2], *(calculate_out_dimension(sizes[i - 2], module_instance, i) for i in (0, 1))))


def linear_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """The type after a ``Linear``.

    Raises:
        TypeError: fewer than two dimensions, or the last is not ``in_features``.
    """
    sizes = tensor_type.__args__
    if len(sizes) < 2:
        raise TypeError(f"Type {tensor_type} must have rank 2 or more.")
    if not is_consistent(module_instance.in_features, sizes[-1]):
        raise TypeError(f"Inconsistent {module_instance.in_features} and {sizes[-1]} in {module_instance}")
    return TensorType((*sizes[:-1], module_instance.out_features))


def adaptiveavgpool2d_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """The type after an ``AdaptiveAvgPool2d``, of tensors with 3 or 4 dimensions.

    Raises:
        TypeError: another number of dimensions.
    """
    sizes = list(tensor_type.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    wanted = [_of(module_instance.output_size, index) for index in (0, 1)]
    return TensorType(
        (*sizes[:-2], *(old if new is None else new for old, new in zip(sizes[-2:], wanted, strict=True)))
    )


def flatten_check(tensor_type: Any, start_dim: int, end_dim: int) -> TensorType:
    """The type after ``torch.flatten`` of the dimensions from ``start_dim`` to ``end_dim``, both included.

    Raises:
        TypeError: there are no such dimensions.
    """
    sizes = tuple(tensor_type.__args__)
    start, end = (dim + len(sizes) if dim < 0 else dim for dim in (start_dim, end_dim))
    if not 0 <= start <= end < len(sizes):
        raise TypeError(f"Incompatible dimensions {start}, {end} in type {tensor_type}")
    joined = sizes[start : end + 1]
    return TensorType((*sizes[:start], Dyn if Dyn in joined else math.prod(joined), *sizes[end + 1 :]))
