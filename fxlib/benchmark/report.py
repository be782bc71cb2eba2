"""The figures of a benchmark: as data, as a table, as an SVG plot."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from fxlib.lowering.difference import in_words, told

SVG = '<svg class="fxlib-benchmark" xmlns="http://www.w3.org/2000/svg"'
"""The beginning of each plot; by the class, `fxlens bench` knows which file it may replace."""


@dataclass
class Measurement:
    """One variant at one batch size and thread count. Times are milliseconds for one call."""

    variant: str
    title: str
    batch: int
    threads: int
    times_ms: list[float] = field(default_factory=list, repr=False)
    prepare_ms: float = 0.0
    first_ms: float = 0.0
    memory_mib: float | None = None
    """Growth of the process's peak memory while the variant was prepared and first run (on a GPU: peak allocated)."""
    max_rel_error: float | None = None
    mismatch: str | None = None
    """How the result differs from eager's in structure, shape or dtype."""
    speedup: float | None = None
    """Median of eager over that of this variant."""
    problem: str | None = None
    """Why there is no measurement."""
    layers: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """Where the time goes: `fxlib.lowering.LayerTime` as data, for an engine that times its kernels, at the first batch
    size and thread count."""

    @property
    def ready_ms(self) -> float:
        """From the model to the end of the first call: some variants do their work in that call."""
        return self.prepare_ms + self.first_ms

    def percentile(self, fraction: float) -> float:
        ordered = sorted(self.times_ms)
        if not ordered:
            return float("nan")
        place = fraction * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    @property
    def median_ms(self) -> float:
        return self.percentile(0.5)

    @property
    def noise(self) -> float:
        """Interquartile range over the median: 0.05 means that half of the samples lie within a range of 5 %."""
        return (self.percentile(0.75) - self.percentile(0.25)) / self.median_ms if self.times_ms else float("nan")

    def as_dict(self) -> dict[str, Any]:
        result = {**asdict(self), "max_rel_error": told(self.max_rel_error)}
        if self.times_ms:
            result.update(
                median_ms=self.median_ms,
                p10_ms=self.percentile(0.1),
                p90_ms=self.percentile(0.9),
                noise=self.noise,
                samples=len(self.times_ms),
            )
        del result["times_ms"]
        return result


@dataclass
class BenchmarkReport:
    """All measurements of one run, and the machine they were made on."""

    model: str
    inputs: str
    environment: dict[str, Any]
    rows: list[Measurement]
    cancelled: bool = False
    random: bool = False
    """Whether the model draws random numbers; errors are then of results with the same seed, which an engine or a
    compiler may draw otherwise."""
    writes: bool = False
    """Whether the model writes to its inputs; times are then those of calls with copies."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": 1,
            "model": self.model,
            "inputs": self.inputs,
            "environment": self.environment,
            "cancelled": self.cancelled,
            "rows": [row.as_dict() for row in self.rows],
        }

    def table(self) -> str:
        """The figures as text, one line a variant."""
        head = (
            "variant",
            "batch",
            "threads",
            "median ms",
            "p10",
            "p90",
            "noise",
            "vs eager",
            "error",
            "ready s",
            "MiB",
        )
        body = []
        for row in self.rows:
            if row.problem or not row.times_ms:
                body.append(
                    (row.title, str(row.batch), str(row.threads), f"- {row.problem or 'not measured'}", *[""] * 7)
                )
                continue
            body.append(
                (
                    row.title,
                    str(row.batch),
                    str(row.threads),
                    f"{row.median_ms:.2f}",
                    f"{row.percentile(0.1):.2f}",
                    f"{row.percentile(0.9):.2f}",
                    f"{row.noise:.0%}",
                    f"{row.speedup:.2f}x" if row.speedup else "",
                    "" if row.max_rel_error is None else in_words(row.max_rel_error),
                    f"{row.ready_ms / 1e3:.2f}",
                    "" if row.memory_mib is None else f"{row.memory_mib:.0f}",
                )
            )
        measured = [line for line in body if not line[3].startswith("- ")]
        widths = [
            max(len(line[i]) for line in [head, *measured, *((b[:3] + ("",) * 8) for b in body)])
            for i in range(len(head))
        ]
        shown = []
        for line in [head, *body]:
            cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
            shown.append(
                "  ".join(cells).rstrip() if not line[3].startswith("- ") else "  ".join(cells[:3]) + "  " + line[3]
            )
        shown.insert(1, "  ".join("-" * w for w in widths))
        machine = self.environment
        foot = f"{self.model}({self.inputs}); torch {machine['torch']}, {machine['cpu']}, {machine['cores']} cores"
        if machine.get("gpu"):
            foot += f", {machine['gpu']}"
        if machine.get("load", 0) > 0.5:
            foot += f"; other programs were running (load {machine['load']:.1f}), so figures are noisy"
        if self.random:
            foot += "; the model draws random numbers, so an error may only mean that others were drawn"
        if self.writes:
            foot += "; the model writes to its inputs, so times include copying them for each call"
        notes = dict.fromkeys(f"{row.title} gives {row.mismatch}" for row in self.rows if row.mismatch)
        return "\n".join([*shown, *notes, foot + (" (cancelled)" if self.cancelled else "")])

    def layers_text(self, most: int = 10) -> str:
        """The layers that take the longest, with their lines; empty where no engine was timed by layer."""
        texts = []
        for row in self.rows:
            if not row.layers or most < 1:
                continue
            slowest = sorted(row.layers, key=lambda layer: -layer["ms"])[:most]
            whole = sum(layer["ms"] for layer in row.layers)
            texts.append(f"{row.title} by layer, batch {row.batch}: {whole:.2f} ms in {len(row.layers)} layers")
            for layer in slowest:
                span, more = layer["span"], [name for name in layer["nodes"] if name != layer["node"]]
                what = layer["node"] or "(changes of layout)"
                kernels = " + ".join(dict.fromkeys(layer["kernels"])) or "in PyTorch"
                texts.append(
                    f"  {layer['share']:6.1%} {layer['ms']:9.3f} ms  {what}: {kernels}"
                    + (f", with {', '.join(more[:4])}{', …' if len(more) > 4 else ''}" if more else "")
                    + (f"  {span[0]}:{span[1]}" if span else "")
                )
        return "\n".join(texts)

    def svg(self) -> str:
        """A bar for each variant: median, with a line from the 10th to the 90th percentile. Colours follow the
        page's theme."""
        rows = [row for row in self.rows if row.times_ms]
        if not rows:
            text = '<text x="8" y="20">no measurements</text>'
            return f'{SVG} width="400" height="30">{text}</svg>'
        longest = max(row.percentile(0.9) for row in rows)
        left, width, step = 190, 420, 26
        height = step * len(rows) + 46
        parts = [
            f'{SVG} viewBox="0 0 {left + width + 130} {height}" '
            'font-family="sans-serif" '
            f'font-size="12" fill="currentColor" role="img" '
            f'aria-label="{escape(self.model)}: time of one call by variant">'
        ]
        for index, row in enumerate(rows):
            y = 8 + index * step
            scale = width / longest
            name = (
                row.title
                if len({(r.batch, r.threads) for r in rows}) == 1
                else f"{row.title} b{row.batch} t{row.threads}"
            )
            median, low, high = (v * scale for v in (row.median_ms, row.percentile(0.1), row.percentile(0.9)))
            colour = "#8a8a8a" if row.variant == "eager" else "#3b82c4"
            middle = y + 9
            label = f"{row.median_ms:.2f} ms" + (
                f" · {row.speedup:.2f}×" if row.speedup and row.variant != "eager" else ""
            )
            parts.append(
                f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
                f'<rect x="{left}" y="{y}" width="{max(median, 1):.1f}" height="18" rx="2" fill="{colour}"/>'
                f'<path d="M{left + low:.1f} {middle}H{left + high:.1f}" stroke="currentColor" stroke-width="1.5"/>'
                f'<text x="{left + max(high, median) + 8:.1f}" y="{y + 13}">{label}</text>'
            )
        parts.append(
            f'<text x="{left}" y="{height - 12}" opacity="0.7">one call, median; line: 10th to 90th percentile</text>'
            "</svg>"
        )
        return "".join(parts)
