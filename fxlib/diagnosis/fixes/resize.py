"""Example inputs of another size: a fix that holds for one size only must not pass for one that holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from fxlib.ir.leaves import map_tensors, tensors_in

__all__ = ["Resize", "another_size", "shapes_of"]

_MOST = 5

Resize = Callable[[Any], Any]
"""Arguments to arguments of another size."""


def another_size(args: tuple, kwargs: dict[str, Any], runs: Callable[[tuple, dict[str, Any]], bool]) -> Resize | None:
    """How the example inputs can grow so that forward still takes them, None where it takes no other size.

    Sizes that are equal grow together, since they may have to agree; ``runs`` says whether forward takes the result.
    """
    tensors = [tensor for tensor in tensors_in(args, kwargs) if tensor.dim()]
    if not tensors:
        return None
    batch = Counter(tensor.shape[0] for tensor in tensors).most_common(1)[0][0]
    inner = Counter(size for tensor in tensors for size in tensor.shape[1:] if size > 1)
    accepted: Resize | None = None
    batches, sizes = False, frozenset[int]()
    choices: list[tuple[bool, frozenset[int]]] = [(True, sizes)]
    choices += [(False, frozenset({size})) for size, _ in inner.most_common()]
    for first, more in choices[:_MOST]:
        wanted = (batches or first, sizes | more)
        resize = _doubling(batch if wanted[0] else None, wanted[1])
        if runs(*resize((args, kwargs))):
            accepted, (batches, sizes) = resize, wanted
    return accepted


def _doubling(batch: int | None, sizes: frozenset[int]) -> Resize:
    """Doubles the leading size ``batch`` and every inner size among ``sizes`` of all tensors."""

    def grown(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim():
            return tensor
        times = [2 if tensor.shape[0] == batch else 1, *(2 if size in sizes else 1 for size in tensor.shape[1:])]
        return tensor.tile(times)

    return lambda arguments: map_tensors(grown, arguments)


def shapes_of(arguments: Any) -> str:
    """The shapes of the tensors among arguments, for a sentence."""
    return ", ".join(str(list(tensor.shape)) for tensor in tensors_in(arguments))
