"""Timing a model against its own variants: eager, generated, fused, quantized, compiled, lowered, in one interleaved
run."""

from fxlib.benchmark.report import BenchmarkReport, Measurement
from fxlib.benchmark.rest import rest
from fxlib.benchmark.runner import benchmark
from fxlib.benchmark.variants import VARIANTS, Variant

__all__ = ["VARIANTS", "BenchmarkReport", "Measurement", "Variant", "benchmark", "rest"]
