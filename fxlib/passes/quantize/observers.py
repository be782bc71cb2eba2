"""Observers: they see values during calibration and choose the scale and zero point of the 8-bit form.

Activations are unsigned and affine (0..255), weights signed and symmetric (-127..127), as the kernels take them:
``real = scale * (quantized - zero_point)`` (Jacob et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

__all__ = ["OBSERVERS", "Histogram", "MinMax", "MovingAverage", "Observer", "QParams", "weight_scales"]

QMAX = 255


@dataclass(frozen=True)
class QParams:
    """Scale and zero point of an 8-bit tensor, which is unsigned unless `signed`."""

    scale: float
    zero_point: int
    signed: bool = False

    def symmetric(self) -> QParams:
        """The signed form without a zero point that covers the same values."""
        largest = max(self.zero_point, QMAX - self.zero_point) * self.scale
        return QParams(largest / 127, 0, signed=True)

    @classmethod
    def of_range(cls, low: float, high: float) -> QParams:
        """The parameters that cover ``low..high`` and zero, which must be exact since padding and ReLU produce it.

        Raises:
            ValueError: an end is NaN or infinite.
        """
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError("a value is NaN or infinite on the calibration data, and 8 bits can hold neither")
        low, high = min(low, 0.0), max(high, 0.0)
        scale = (high - low) / QMAX
        if scale < 1e-12:
            return cls(1.0, 0)
        return cls(scale, max(0, min(QMAX, round(-low / scale))))


class Observer(Protocol):
    """The interface of an observer."""

    def see(self, value: torch.Tensor) -> None:
        """Take one more value into account."""

    def range(self) -> tuple[float, float]:
        """The interval that the 8-bit form should cover."""


class MinMax:
    """The smallest and largest value ever seen."""

    def __init__(self) -> None:
        self.low, self.high = float("inf"), float("-inf")

    def see(self, value: torch.Tensor) -> None:
        low, high = torch.aminmax(value.detach())
        self.low, self.high = min(self.low, low.item()), max(self.high, high.item())

    def range(self) -> tuple[float, float]:
        return (self.low, self.high) if self.low <= self.high else (0.0, 0.0)


class MovingAverage(MinMax):
    """Minimum and maximum averaged over batches: ``new = old + constant * (seen - old)``."""

    def __init__(self, constant: float = 0.01) -> None:
        super().__init__()
        self.constant = constant

    def see(self, value: torch.Tensor) -> None:
        low, high = (v.item() for v in torch.aminmax(value.detach()))
        if self.low > self.high:
            self.low, self.high = low, high
        else:
            self.low += self.constant * (low - self.low)
            self.high += self.constant * (high - self.high)


class Histogram:
    """A histogram of all values; the range leaves out the tails beyond a percentile, or minimises the squared error.

    Args:
        percentile: the share of values to cover, in percent; None searches the symmetric cut of both tails with the
        least
            squared rounding and clipping error.
    """

    def __init__(self, percentile: float | None = None, bins: int = 2048) -> None:
        self.percentile, self.bins = percentile, bins
        self.low, self.high = 0.0, 0.0
        self.counts = torch.zeros(bins, dtype=torch.float64)
        self.seen = False

    def see(self, value: torch.Tensor) -> None:
        flat = value.detach().float().flatten()
        low, high = (v.item() for v in torch.aminmax(flat))
        if not self.seen:
            self.low, self.high, self.seen = low, max(high, low + 1e-12), True
        elif low < self.low or high > self.high:
            self._widen(min(low, self.low), max(high, self.high))
        self.counts += torch.histc(flat, self.bins, self.low, self.high).double()

    def _widen(self, low: float, high: float) -> None:
        width = (self.high - self.low) / self.bins
        centres = self.low + width * (torch.arange(self.bins, dtype=torch.float64) + 0.5)
        index = ((centres - low) / (high - low) * self.bins).long().clamp(0, self.bins - 1)
        self.counts = torch.zeros(self.bins, dtype=torch.float64).index_add_(0, index, self.counts)
        self.low, self.high = low, high

    def range(self) -> tuple[float, float]:
        total = self.counts.sum().item()
        if not self.seen or total == 0:
            return 0.0, 0.0
        if self.percentile is not None:
            return self._cut((100.0 - self.percentile) / 200.0)
        return min((self._cut(tail) for tail in (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)), key=self._error)

    def _cut(self, tail: float) -> tuple[float, float]:
        share = self.counts.cumsum(0) / self.counts.sum()
        width = (self.high - self.low) / self.bins
        first = int((share <= tail).sum()) if tail else 0
        last = int((share < 1 - tail).sum()) + 1 if tail else self.bins
        return self.low + width * min(first, self.bins - 1), self.low + width * min(last, self.bins)

    def _error(self, bounds: tuple[float, float]) -> float:
        low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
        width = (self.high - self.low) / self.bins
        centres = self.low + width * (torch.arange(self.bins, dtype=torch.float64) + 0.5)
        clipped = centres.clamp(low, high) - centres
        rounding = ((high - low) / QMAX) ** 2 / 12
        return float((self.counts * (clipped**2 + rounding)).sum())


OBSERVERS: dict[str, Callable[[], Observer]] = {
    "minmax": MinMax,
    "moving-average": MovingAverage,
    "histogram": Histogram,
    "percentile": lambda: Histogram(percentile=99.99),
}


def weight_scales(weight: torch.Tensor, per_channel: bool = True, limit: int = 127) -> torch.Tensor:
    """Symmetric scales of a weight, ``[out]``: one per output channel (dimension 0), or all equal.

    Args:
        limit: the largest integer used; 63 where the CPU's 8-bit products may saturate (no VNNI).
    """
    flat = weight.detach().flatten(1).abs()
    largest = flat.amax(1) if per_channel else flat.amax().expand(weight.shape[0])
    return (largest / limit).clamp_min(1e-12).float().contiguous()
