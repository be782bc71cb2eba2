"""Example inputs of another size: a fix that holds for one size only must not pass for one that holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from fxlib.ir.leaves import map_tensors, tensors_in

__all__ = ["Resize", "another_size", "elements", "shapes_of"]

_MOST = 4
_LARGE = 32
"""From this size on, half of it is tried before twice as much, which takes several times as long."""

Resize = Callable[[Any], Any]
"""Arguments to arguments of another size."""


def another_size(args: tuple, kwargs: dict[str, Any], runs: Callable[[tuple, dict[str, Any]], bool]) -> Resize | None:
    """How the example inputs can grow or shrink so that forward still takes them, None where it takes no other size.

    Sizes that are equal change together, since they may have to agree; ``runs`` says whether forward takes the result.
    The batch grows: a single sample would hide what depends on their number.
    """
    tensors = [tensor for tensor in tensors_in(args, kwargs) if tensor.dim()]
    if not tensors:
        return None
    batch = Counter(tensor.shape[0] for tensor in tensors).most_common(1)[0][0]
    inner = Counter(size for tensor in tensors for size in tensor.shape[1:] if size > 1)
    accepted: Resize | None = None
    first: int | None = None
    sizes: dict[int, int] = {}
    halves = [{size: size // 2} for size, _ in inner.most_common() if size >= _LARGE and size % 2 == 0]
    doubles = [{size: 2 * size} for size, _ in inner.most_common()]
    choices = [*((None, each) for each in halves[:_MOST]), (batch, {}), *((None, each) for each in doubles[:_MOST])]
    for larger, more in choices:
        if more.keys() & sizes.keys():
            continue
        wanted = (larger or first, {**sizes, **more})
        resize = _resizing(*wanted)
        if runs(*resize((args, kwargs))):
            accepted, (first, sizes) = resize, wanted
    return accepted


def _resizing(batch: int | None, sizes: dict[int, int]) -> Resize:
    """Doubles the leading size ``batch`` and gives inner sizes those that ``sizes`` has for them, in all tensors."""

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim():
            return tensor
        shape = [2 * tensor.shape[0] if tensor.shape[0] == batch else tensor.shape[0]]
        shape += [sizes.get(size, size) for size in tensor.shape[1:]]
        large = tensor.tile([2 if new > old else 1 for new, old in zip(shape, tensor.shape, strict=True)])
        return large[tuple(slice(size) for size in shape)].contiguous()

    return lambda arguments: map_tensors(resized, arguments)


def elements(arguments: Any) -> int:
    """How many elements the tensors among arguments have."""
    return sum(tensor.numel() for tensor in tensors_in(arguments))


def shapes_of(arguments: Any) -> str:
    """The shapes of the tensors among arguments, for a sentence."""
    return ", ".join(str(list(tensor.shape)) for tensor in tensors_in(arguments))
