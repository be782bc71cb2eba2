"""Initial weights of large models without drawing each number."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

__all__ = ["repeated_draws"]

_LARGE = 1 << 16
_PRIME = 65_521  # a prime, so that the rows of a weight begin at different numbers
_STEP = 9_973  # offset between the starts of two tensors: layers of the same shape differ


@contextlib.contextmanager
def repeated_draws() -> Iterator[None]:
    """``uniform_`` and ``normal_`` fill large tensors with a repeated block of random numbers, starting at another one
    each time, which is 20 times as fast as drawing. The generator of torch is left as it is, and the numbers are the
    same each time this is entered.

    The methods themselves are replaced meanwhile: a torch function mode does not see them inside of ``torch.nn.init``.
    """
    before = {name: vars(torch.Tensor).get(name) for name in _DRAWS}
    begins = itertools.count(0, _STEP)
    try:
        for name, drawn in _DRAWS.items():
            setattr(torch.Tensor, name, _instead_of(getattr(torch.Tensor, name), drawn, begins))
        yield
    finally:
        for name, own in before.items():
            if own is not None:
                setattr(torch.Tensor, name, own)
            elif name in vars(torch.Tensor):
                delattr(torch.Tensor, name)


def _instead_of(
    original: Callable[..., Any], drawn: Callable[[float, float], torch.Tensor], begins: Iterator[int]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def fill(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("generator") is not None or not _is_large(tensor):
            return original(tensor, *args, **kwargs)
        first, second = _bounds(*args, **kwargs)
        block = drawn(0.0 if first is None else first, 1.0 if second is None else second)
        return _fill(tensor, block.roll(next(begins) % _PRIME))

    return fill


def _is_large(tensor: Any) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.numel() >= _LARGE
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )


def _bounds(first: Any = None, second: Any = None, **named: Any) -> tuple[Any, Any]:
    first = named.get("mean", named.get("from", first))
    return first, named.get("std", named.get("to", second))


def _uniform(low: float, high: float) -> torch.Tensor:
    return _block(False) * (high - low) + low


def _normal(mean: float, std: float) -> torch.Tensor:
    return _block(True) * std + mean


_DRAWS = {"uniform_": _uniform, "normal_": _normal}


@cache
def _block(normal: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn if normal else torch.rand)(_PRIME, generator=generator)


def _fill(tensor: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().view(-1)
    whole = tensor.numel() // _PRIME
    flat[: whole * _PRIME].view(whole, _PRIME).copy_(block)
    flat[whole * _PRIME :].copy_(block[: tensor.numel() - whole * _PRIME])
    return tensor
