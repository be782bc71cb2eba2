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

    Sizes that are equal change together, since they may have to agree. An even size becomes an odd one if forward takes
    that, since divisions then leave a rest. ``runs`` says whether forward takes the result, and ``slow`` whether that
    took long: then the batch and one more size are enough. With ``smaller`` large sizes shrink while it is slow, and
    the batch grows once one has shrunk.
    """
    tensors = [tensor for tensor in tensors_in(args, kwargs) if tensor.dim()]
    if not tensors:
        return None
    batch = Counter(tensor.shape[0] for tensor in tensors).most_common(1)[0][0]
    inner = Counter(size for tensor in tensors for size in tensor.shape[1:] if size > 1)
    accepted: Resize | None = None
    first: dict[int, int] = {}
    sizes: dict[int, int] = {}
    halves = [_half(size, size) for size, _ in inner.most_common()]
    inside = [ways for ways in halves if ways] if smaller else [_larger(size) for size, _ in inner.most_common()]
    of_batch = [(True, _larger(batch))]
    of_others = [(False, ways) for ways in inside[:_MOST]]
    for leading, ways in [*of_others, *of_batch] if smaller else [*of_batch, *of_others]:
        if (smaller and leading and not sizes) or (not smaller and sizes and slow()):
            break
        while ways:
            way, *ways = ways
            wanted = ({**first, **way}, sizes) if leading else (first, {**sizes, **way})
            resize = _resizing(*wanted)
            if runs(*resize((args, kwargs))):
                accepted, (first, sizes) = resize, wanted
                again = smaller and not leading and slow()
                ways = _half(*next(iter(way.items()))) if again else []
    return accepted


def _larger(size: int) -> list[dict[int, int]]:
    """About twice the size, first as an odd number if it is even."""
    return [{size: new} for new in ((2 * size,) if size % 2 else (2 * size - 1, 2 * size))]


def _half(size: int, now: int) -> list[dict[int, int]]:
    return [{size: now // 2}] if now >= _LARGE and now % 2 == 0 else []


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
            found = taken(*_resizing({}, smaller)((args, kwargs)))
            if found is None:
                break
            seconds, sizes = found, smaller
            accepted = accepted if math.isinf(found) else smaller
    return _resizing({}, accepted) if accepted else None


def _resizing(first: dict[int, int], sizes: dict[int, int]) -> Resize:
    """Maps the leading sizes of all tensors by ``first``, and their other sizes by ``sizes``."""

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim():
            return tensor
        shape = [first.get(tensor.shape[0], tensor.shape[0]), *(sizes.get(size, size) for size in tensor.shape[1:])]
        large = tensor.detach().tile([2 if new > old else 1 for new, old in zip(shape, tensor.shape, strict=True)])
        return large[tuple(slice(size) for size in shape)].contiguous().requires_grad_(tensor.requires_grad)

    return lambda arguments: map_tensors(resized, arguments)


def shapes_of(arguments: Any) -> str:
    """The shapes of the tensors among arguments, as text."""
    return ", ".join(str(list(tensor.shape)) for tensor in tensors_in(arguments))
