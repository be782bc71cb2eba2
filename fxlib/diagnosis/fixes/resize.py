"""Example inputs of another size: they reveal a fix that is right for one size only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from fxlib.ir.leaves import map_tensors, tensors_in

__all__ = ["Resize", "another_size", "shapes_of", "small_enough"]

_MOST = 4
_LARGE = 8
"""From this size on (of a sequence or an image), half of it is tried if a model is slow."""
_SMALL = 4
"""The same for assumed inputs of a slow model."""

Resize = Callable[[Any], Any]
"""Maps arguments to arguments of another size."""


def another_size(
    args: tuple,
    kwargs: dict[str, Any],
    runs: Callable[[tuple, dict[str, Any]], bool],
    smaller: bool = False,
    slow: Callable[[], bool] = lambda: False,
) -> Resize | None:
    """A resizing of the example inputs that forward still takes; None if it takes no other size.

    Sizes that are equal change together, since they may have to agree; ``runs`` says whether forward takes the result,
    and ``slow`` whether that took long: then the batch and one more size are enough. With ``smaller`` large sizes
    shrink while it is slow, and the batch grows once one has shrunk.
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
    inside = [(None, each) for each in (halves if smaller else doubles)[:_MOST]]
    for larger, more in [*inside, (batch, {})] if smaller else [(batch, {}), *inside]:
        if (smaller and larger and not sizes) or (not smaller and sizes and slow()):
            break
        while True:
            wanted = (larger or first, {**sizes, **more})
            resize = _resizing(*wanted)
            if not runs(*resize((args, kwargs))):
                break
            accepted, (first, sizes) = resize, wanted
            more = {size: now // 2 for size, now in more.items() if now >= _LARGE and now % 2 == 0}
            if not (smaller and more and slow()):
                break
    return accepted


def small_enough(
    args: tuple, kwargs: dict[str, Any], taken: Callable[[tuple, dict[str, Any]], float | None], slow: float
) -> Resize | None:
    """A resizing that shrinks example inputs until forward takes no longer than ``slow``; None if they should stay as
    they are.

    ``taken`` gives the seconds that forward takes with arguments: infinity if it was stopped, None if it raises. Sizes
    that are equal change together; the batch stays. If no size is quick, it is the last one with which forward ended.
    """
    inner = Counter(size for tensor in tensors_in(args, kwargs) for size in tensor.shape[1:] if size > 1)
    sizes: dict[int, int] = {}
    accepted: dict[int, int] = {}
    seconds = taken(args, kwargs)
    for size, _ in inner.most_common()[:_MOST]:
        while seconds is not None and seconds > slow and (now := sizes.get(size, size)) >= _SMALL and now % 2 == 0:
            smaller = {**sizes, size: now // 2}
            found = taken(*_resizing(None, smaller)((args, kwargs)))
            if found is None:
                break
            seconds, sizes = found, smaller
            accepted = accepted if math.isinf(found) else smaller
    return _resizing(None, accepted) if accepted else None


def _resizing(batch: int | None, sizes: dict[int, int]) -> Resize:
    """Doubles the leading size ``batch`` and maps the other sizes by ``sizes``, in all tensors."""

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim():
            return tensor
        shape = [2 * tensor.shape[0] if tensor.shape[0] == batch else tensor.shape[0]]
        shape += [sizes.get(size, size) for size in tensor.shape[1:]]
        large = tensor.detach().tile([2 if new > old else 1 for new, old in zip(shape, tensor.shape, strict=True)])
        return large[tuple(slice(size) for size in shape)].contiguous().requires_grad_(tensor.requires_grad)

    return lambda arguments: map_tensors(resized, arguments)


def shapes_of(arguments: Any) -> str:
    """The shapes of the tensors among arguments, as text."""
    return ", ".join(str(list(tensor.shape)) for tensor in tensors_in(arguments))
