"""Example inputs of other sizes: the tensors among the arguments, their dimensions, and copies that are larger."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["Dimension", "Inputs"]


@dataclass(frozen=True, order=True)
class Dimension:
    """A dimension of an input: the path of its tensor among the arguments (``("x",)``, ``("batch", "image")``), and its
    number."""

    path: tuple[Any, ...]
    dim: int

    @property
    def text(self) -> str:
        """Its name as text: ``dimension 0 of x``."""
        return f"dimension {self.dim} of {self.name}"

    @property
    def name(self) -> str:
        return str(self.path[0]) + "".join(f"[{step!r}]" for step in self.path[1:])


class Inputs:
    """The arguments of one call, by parameter of forward.

    Raises:
        TypeError: the arguments do not fit the signature.
    """

    def __init__(self, module: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> None:
        self.module = module
        self.args, self.kwargs = args, dict(kwargs)
        self.signature = inspect.signature(module.forward)
        self.arguments: dict[str, Any] = dict(self.signature.bind(*args, **kwargs).arguments)

    def tensors(self) -> dict[tuple[Any, ...], torch.Tensor]:
        """The tensors by path."""
        leaves, _ = pytree.tree_flatten_with_path(self.arguments)
        return {
            tuple(getattr(key, "key", getattr(key, "idx", None)) for key in path): value
            for path, value in leaves
            if isinstance(value, torch.Tensor)
        }

    def dimensions(self) -> dict[Dimension, int]:
        """Every dimension of every tensor, with its size."""
        return {
            Dimension(path, dim): size
            for path, tensor in self.tensors().items()
            for dim, size in enumerate(tensor.shape)
        }

    def resized(self, sizes: Mapping[Dimension, int]) -> Inputs:
        """The same arguments with other sizes. Added elements repeat the tensor's own values, so that indexes and masks
        stay valid."""

        def other(path: Any, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            steps = tuple(getattr(key, "key", getattr(key, "idx", None)) for key in path)
            grad = value.requires_grad
            value = value.detach()
            for dim in range(value.dim()):
                size = sizes.get(Dimension(steps, dim))
                if size is not None and size != value.shape[dim]:
                    index = torch.arange(size, device=value.device) % max(value.shape[dim], 1)
                    value = value.index_select(dim, index)
            return value.requires_grad_(grad)

        arguments = pytree.tree_map_with_path(other, self.arguments)
        bound = inspect.BoundArguments(self.signature, arguments)  # type: ignore[arg-type]
        return Inputs(self.module, bound.args, bound.kwargs)

    def shapes(self, of: Mapping[Dimension, Any]) -> dict[str, Any]:
        """``dynamic_shapes`` for torch.export: the entry of ``of`` for a dimension, None for the others."""

        def entry(path: Any, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return None
            steps = tuple(getattr(key, "key", getattr(key, "idx", None)) for key in path)
            return {dim: of.get(Dimension(steps, dim)) for dim in range(value.dim())}

        shapes = pytree.tree_map_with_path(entry, self.arguments)
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD and name in shapes:
                shapes.update(shapes.pop(name))
        return shapes
