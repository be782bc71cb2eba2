"""The leaves of nested arguments and results, and one thing where several may stand."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["as_sequence", "cast", "copied", "map_tensors", "tensors_in"]


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, from left to right."""
    return [leaf for leaf in pytree.tree_leaves(values) if torch.is_tensor(leaf)]


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same nested tuples, lists and dicts with ``function`` of each tensor in its place."""
    return pytree.tree_map_only(torch.Tensor, function, value)


def copied(value: Any) -> Any:
    """The same nested value with copies of the tensors: a model may write to its inputs."""
    return map_tensors(torch.clone, value)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """The same nested value with its floating-point tensors in ``dtype``."""
    return map_tensors(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, value)


def as_sequence(value: Any) -> Sequence[Any]:
    """A list or tuple as it is; anything else as the only item of a tuple."""
    return value if isinstance(value, (list, tuple)) else (value,)
