"""Devices as a roofline sees them: peak rates and bandwidth, from the makers' data sheets or a short measurement.

Rates are dense (no sparsity), in operations per second; a multiply-add counts as two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

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

    def rate(self, dtype: torch.dtype, kind: str = "") -> float:
        """Operations per second for a dtype; one that the device has no units for runs at its float32 rate."""
        name = str(dtype).removeprefix("torch.")
        if kind in self.kinds and dtype is torch.float32:
            return self.kinds[kind]
        return self.rates.get(name, self.rates["float32"])


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


def calibrated_cpu(seconds: float = 0.15) -> Device:
    """This CPU with torch's current number of threads, measured for about ``6 * seconds``.

    Measures a large matrix product, a 3x3 and a grouped convolution, a small-batch linear layer, a large copy, and an
    operator on one element; the median of each.
    """
    with torch.no_grad():
        a, b = torch.randn(512, 1024), torch.randn(1024, 1024)
        x, w = torch.randn(4, 128, 28, 28), torch.randn(128, 128, 3, 3)
        g, gw = torch.randn(4, 128, 28, 28), torch.randn(128, 1, 3, 3)
        big, out, one = torch.randn(1 << 24), torch.empty(1 << 24), torch.zeros(1)
        matmul = 2 * 512 * 1024 * 1024 / _median(lambda: a @ b, seconds)
        conv = 2 * x.shape[0] * 28 * 28 * w.numel() / _median(lambda: F.conv2d(x, w, padding=1), seconds)
        depthwise = (
            2 * g.shape[0] * 28 * 28 * gw.numel() / _median(lambda: F.conv2d(g, gw, padding=1, groups=128), seconds)
        )
        bandwidth = 2 * big.nbytes / _median(lambda: out.copy_(big), seconds)
        overhead = _median(lambda: one.neg(), seconds)
    threads = torch.get_num_threads()
    return Device(
        f"this CPU, {threads} thread{'s' if threads > 1 else ''}",
        {"float32": matmul, "float64": matmul / 2},
        bandwidth,
        0.0,
        overhead,
        "measured by fxlib.passes.devices.calibrated_cpu",
        {"matmul": matmul, "conv": conv, "depthwise": depthwise},
    )


def _median(call: Callable[[], object], seconds: float) -> float:
    call()
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]
