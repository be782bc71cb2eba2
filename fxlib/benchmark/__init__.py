"""Timing a model against its own variants: eager, generated, fused, quantized, compiled, lowered, in one interleaved
run."""

from .report import BenchmarkReport, Measurement
from .rest import rest
from .runner import benchmark
from .variants import VARIANTS, Variant

__all__ = ["VARIANTS", "BenchmarkReport", "Measurement", "Variant", "benchmark", "rest"]
