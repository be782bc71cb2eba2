"""The times of a benchmark by layer, as inlay hints at the ends of the lines, until the text changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fxlens.answers import Benchmark, LayerTime, Measurement, Place

SMALLEST = 0.005
"""Lines with less than this share of the time are left without a hint."""


@dataclass(frozen=True)
class Times:
    """A benchmark's times by layer, for the measured text."""

    text: str
    target: str
    variant: str
    """Its title."""
    layers: Sequence[LayerTime]
    places: Mapping[str, Sequence[Place]]

    def by_line(self, uri: str) -> Iterator[tuple[int, str, list[str]]]:
        """Line (from 0), label, and a tooltip. A layer is shown at the innermost of its places in the file."""
        lines: dict[int, list[LayerTime]] = {}
        for layer in self.layers:
            here = next((each for each in self.places.get(layer["node"], ()) if each["uri"] == uri), None)
            if here is not None:
                lines.setdefault(here["range"]["end"]["line"], []).append(layer)
        for line, layers in sorted(lines.items()):
            share, ms = sum(each["share"] for each in layers), sum(each["ms"] for each in layers)
            if share < SMALLEST:
                continue
            slowest = sorted(layers, key=lambda each: -each["ms"])
            note = [f"{self.target}: time of one run with {self.variant}, measured by the benchmark"]
            note += [f"{_time(each['ms'])}  {each['node']} ({_kernels(each)})" for each in slowest[:12]]
            if len(slowest) > 12:
                note.append(f"and {len(slowest) - 12} more")
            yield line, f"{100 * share:.1f} % · {_time(ms)}", note


def timed(report: Benchmark) -> Measurement | None:
    """The first variant of a benchmark that was timed by layer."""
    return next((row for row in report["rows"] if row["layers"]), None)


def _time(ms: float) -> str:
    return f"{ms:.2f} ms" if ms >= 0.1 else f"{1000 * ms:.0f} µs"


def _kernels(layer: LayerTime) -> str:
    return " + ".join(dict.fromkeys(layer["kernels"])) or "in PyTorch"
