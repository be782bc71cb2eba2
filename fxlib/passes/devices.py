"""Devices for the roofline model: peak rates and bandwidth, from data sheets or a short measurement.

Rates are dense (no sparsity), in operations per second; a multiply-add counts as two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["DEVICES", "Device", "calibrated_cpu"]


@dataclass(frozen=True)
class Device:
    """Peak operations per second by dtype name, memory bandwidth in bytes per second, seconds per launched kernel."""

    name: str
    rates: dict[str, float]
    bandwidth: float
    memory: float
    overhead: float
    source: str
    kinds: dict[str, float] = field(default_factory=dict)  # measured rates of one kind of operator, above the dtype's
    cache: float = 0.0  # bytes up to which an operator's inputs and results are still in the cache when they are read
    cached_bandwidth: float = 0.0
    overlaps: bool = True  # whether arithmetic hides the memory traffic, as in the roofline model

    def rate(self, dtype: torch.dtype, kind: str = "") -> float:
        """Operations per second for a dtype; one that the device has no units for runs at its float32 rate."""
        name = str(dtype).removeprefix("torch.")
        if kind in self.kinds and dtype is torch.float32:
            return self.kinds[kind]
        return self.rates.get(name, self.rates["float32"])

    def seconds(self, operations: float, rate: float, moved: float, weights: float) -> float:
        """Time of one operator: arithmetic, traffic of inputs and results, traffic of weights, and the launch."""
        near = self.cached_bandwidth and moved <= self.cache
        traffic = moved / (self.cached_bandwidth if near else self.bandwidth) + weights / self.bandwidth
        arithmetic = operations / rate
        return (max(arithmetic, traffic) if self.overlaps else arithmetic + traffic) + self.overhead


def _nvidia(name: str, source: str, tera: dict[str, float], gigabytes_per_s: float, gigabytes: float) -> Device:
    rates = {dtype: rate * 1e12 for dtype, rate in tera.items()}
    return Device(name, rates, gigabytes_per_s * 1e9, gigabytes * 1e9, 5e-6, source)


_OVERHEAD_NOTE = "5 us per kernel: the usual launch rate of eager PyTorch"

DEVICES: dict[str, Device] = {
    d.name: d
    for d in (
        _nvidia(
            "V100",
            "NVIDIA V100 data sheet (2020): SXM2 32 GB; " + _OVERHEAD_NOTE,
            {"float64": 7.8, "float32": 15.7, "float16": 125},
            900,
            32,
        ),
        _nvidia(
            "A100",
            "NVIDIA A100 data sheet (2022): SXM 80 GB, float32 without TF32; " + _OVERHEAD_NOTE,
            {"float64": 9.7, "float32": 19.5, "float16": 312, "bfloat16": 312, "int8": 624},
            2039,
            80,
        ),
        _nvidia(
            "H100",
            "NVIDIA H100 data sheet (2023): SXM, dense rates are half the printed sparse ones; " + _OVERHEAD_NOTE,
            {"float64": 34, "float32": 67, "float16": 989.5, "bfloat16": 989.5, "int8": 1979},
            3350,
            80,
        ),
        _nvidia(
            "H200",
            "NVIDIA H200 data sheet (2024): SXM, dense rates are half the printed sparse ones; " + _OVERHEAD_NOTE,
            {"float64": 34, "float32": 67, "float16": 989.5, "bfloat16": 989.5, "int8": 1979},
            4800,
            141,
        ),
        _nvidia(
            "L4",
            "NVIDIA L4 data sheet (2023): dense rates are half the printed sparse ones; " + _OVERHEAD_NOTE,
            {"float32": 30.3, "float16": 121, "bfloat16": 121, "int8": 242.5},
            300,
            24,
        ),
        _nvidia(
            "T4",
            "NVIDIA T4 data sheet (2019); " + _OVERHEAD_NOTE,
            {"float32": 8.1, "float16": 65, "int8": 130},
            320,
            16,
        ),
    )
}


_CACHE = 4 << 20
"""Bytes that a core's own cache holds between two operators, roughly, on recent server CPUs."""


def calibrated_cpu(seconds: float = 0.1) -> Device:
    """This CPU with torch's current number of threads, measured for about ``10 * seconds``.

    Measures one operator of each kind with its own kernels in torch (large products, convolutions by kernel shape, max
    pooling), copies within and beyond the cache, and a layer on one element. The minimum of many runs counts, since
    other load can only add time.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"calibrated_cpu(): seconds must be a number above 0, not {seconds!r}")
    with torch.no_grad():
        timers = {kind: (operations, _least(call, seconds)) for kind, operations, call in _kinds()}
        near, far, far_out = torch.randn(1 << 18), torch.randn(1 << 24), torch.empty(1 << 24)
        one, layer = torch.zeros(1), nn.ReLU()
        cached_bandwidth = 2 * near.nbytes / _least(lambda: near.neg(), seconds)
        bandwidth = 2 * far.nbytes / _least(lambda: far_out.copy_(far), seconds)
        overhead = _least(lambda: layer(one), seconds)
    kinds = {kind: operations / time for kind, (operations, time) in timers.items()}
    threads = torch.get_num_threads()
    return Device(
        f"this CPU, {threads} thread{'s' if threads > 1 else ''}",
        {"float32": kinds["matmul"], "float64": kinds["matmul"] / 2},
        bandwidth,
        0.0,
        overhead,
        "measured by fxlib.passes.devices.calibrated_cpu",
        kinds,
        _CACHE * threads,
        cached_bandwidth,
        overlaps=False,
    )


def _kinds() -> list[tuple[str, float, Callable[[], object]]]:
    """Name, operations, call of each kind of operator."""
    a, b = torch.randn(256, 1024), torch.randn(1024, 1024)
    x, y = torch.randn(1, 128, 28, 28), torch.randn(1, 256, 28, 28)
    image, wide = torch.randn(1, 3, 112, 112), torch.randn(1, 96, 56, 56)
    square, stem = torch.randn(128, 128, 3, 3), torch.randn(32, 3, 3, 3)
    point, step, thin = torch.randn(256, 256, 1, 1), torch.randn(512, 256, 1, 1), torch.randn(96, 1, 3, 3)
    return [
        ("matmul", 2 * 256 * 1024 * 1024, lambda: a @ b),
        ("conv", 2 * 28 * 28 * square.numel(), lambda: F.conv2d(x, square, padding=1)),
        ("pointwise", 2 * 28 * 28 * point.numel(), lambda: F.conv2d(y, point)),
        ("strided", 2 * 14 * 14 * step.numel(), lambda: F.conv2d(y, step, stride=2)),
        ("stem", 2 * 56 * 56 * stem.numel(), lambda: F.conv2d(image, stem, stride=2, padding=1)),
        ("depthwise", 2 * 56 * 56 * thin.numel(), lambda: F.conv2d(wide, thin, padding=1, groups=96)),
        ("max_pool", 96 * 28 * 28 * 4, lambda: F.max_pool2d(wide, 2)),
    ]


def _least(call: Callable[[], object], seconds: float) -> float:
    call()
    call()
    best, runs = float("inf"), 0
    begin = time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds or runs < 5 or (runs < 30 and spent < 10 * seconds):
        start = time.perf_counter()
        call()
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return best
