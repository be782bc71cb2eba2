"""The report of a lowering: parts, operators, reasons, sizes, times, errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fxlib.ir.span import Span
from fxlib.lowering.difference import in_words, told
from fxlib.lowering.engine import Kernel
from fxlib.lowering.layers import Layer


@dataclass
class PartReport:
    """One part of the split graph."""

    name: str
    engine: str | None
    """The engine that runs it, or None for PyTorch."""
    nodes: list[str]
    operators: dict[str, int] = field(default_factory=dict)
    """ONNX operator -> count."""
    weights_bytes: int = 0
    build_ms: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)
    """Facts about the program: see `fxlib.lowering.Program`."""
    kernels: list[Kernel] = field(default_factory=list)
    """The engine's kernels, once `LoweredModule.list_kernels` was called."""


@dataclass
class LoweringReport:
    """The whole lowering, plain data."""

    model: str
    engine: str
    label: str
    """The engine's display name."""
    precision: str
    parts: list[PartReport]
    reasons: dict[str, str]
    """Node name -> why it stays in PyTorch."""
    spans: dict[str, Span | None]
    """Node name -> source span of each node that stays in PyTorch."""
    codes: dict[str, str]
    """Node name -> rule of its reason, such as "FX401"; docs/rules has a page for each."""
    timings: dict[str, float]
    """Stage -> milliseconds: trace, values, split, convert, build, and compare, which runs the model and the result."""
    captured_by: str = "torch.fx"
    """The capture that made the graph: "torch.fx" (a symbolic trace) or "torch.export"."""
    not_traced: str | None = None
    """Why there is no symbolic trace, if torch.export was used."""
    built: bool = True
    """False for a preview: nothing was built, run or compared."""
    dynamic: dict[str, list[int]] = field(default_factory=dict)
    """Input -> its dimensions that may change between calls."""
    conditions: list[str] = field(default_factory=list)
    """Conditions on sizes that may change: torch.export captured the branches that forward takes then."""
    layers: list[Layer] = field(default_factory=list)
    """One for each node, in the order of the graph."""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    """Largest difference from eager on the example inputs, relative to the largest eager magnitude; None if inputs have
    no data, infinite if only one has NaN or an infinity, or if there is a `mismatch`."""
    mismatch: str | None = None
    """How the result on the example inputs differs from eager's in structure, shape or dtype; None if it does not."""

    @property
    def complete(self) -> bool:
        """Whether the engine runs the whole model."""
        return not self.reasons

    def share(self, part: PartReport) -> float | None:
        """The part's share of the known floating-point operations, from 0 to 1; None if there are none."""
        total = sum(layer.flops or 0 for layer in self.layers)
        return sum(layer.flops or 0 for layer in self.layers if layer.part == part.name) / total if total else None

    def as_dict(self) -> dict[str, Any]:
        apart = {"max_abs_error": told(self.max_abs_error), "max_rel_error": told(self.max_rel_error)}
        return {**asdict(self), **apart, "complete": self.complete}

    def __str__(self) -> str:
        inside = sum(len(p.nodes) for p in self.parts if p.engine)
        total = sum(len(p.nodes) for p in self.parts)
        count = sum(1 for p in self.parts if p.engine)
        lines = [
            f"{self.model} on {self.label}, {self.precision}: {inside} of {total} nodes in "
            f"{count} part{'s' * (count != 1)}" + ("" if self.built else " (preview: nothing is built)")
        ]
        if self.not_traced is not None:
            lines.append(f"  captured by {self.captured_by}, not by torch.fx: {self.not_traced}")
        if self.dynamic:
            dims = ", ".join(f"{name}: {', '.join(map(str, dims))}" for name, dims in self.dynamic.items())
            lines.append(f"  dimensions that may change: {dims}" + "".join(f"; {each}" for each in self.conditions))
        if self.mismatch is not None:
            lines.append(f"  differs from eager on the example inputs: it gives {self.mismatch}")
        elif self.max_abs_error is not None and self.max_rel_error is not None:
            absolute, relative = in_words(self.max_abs_error, 2), in_words(self.max_rel_error, 2)
            lines.append(f"  difference from eager: {absolute} absolute, {relative} relative")
        for part in self.parts:
            where = self.label if part.engine else "PyTorch"
            ops = ", ".join(f"{count} {op}" for op, count in sorted(part.operators.items(), key=lambda kv: -kv[1])[:6])
            count, share = len(part.nodes), self.share(part)
            told = f"{count} node{'s' * (count != 1)}" + ("" if share is None else f", {share:.1%} of the FLOPs")
            lines.append(f"  {part.name}: {where}, {told}" + (f" ({ops})" if ops else ""))
            for name, (low, usual, high) in part.info.get("profiles", {}).items():
                lines.append(f"    {name}: built for {low} to {high}, best at {usual}")
        for node, reason in self.reasons.items():
            span = self.spans.get(node)
            place = f"{span[0]}:{span[1]}: " if span else ""
            lines.append(f"  {place}{self.codes[node]} {node} stays in PyTorch: {reason}")
        return "\n".join(lines)
