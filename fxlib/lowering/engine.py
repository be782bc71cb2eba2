"""What an engine is: something that makes a runnable program out of an ONNX model.

A new engine is one file in `engines/` that registers itself here; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import torch

from fxlib.lowering.onnx.export import Exported


class EngineError(RuntimeError):
    """An engine is missing or failed; the text says what to do."""


@dataclass
class BuildOptions:
    """How a program is built. An engine ignores what it has no use for."""

    threads: int | None = None
    """Threads for one call; None is the engine's default."""
    device: str = "cpu"
    cache_dir: str | None = None
    dynamic: Any = None
    profiles: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] = field(default_factory=dict)
    """Input name -> smallest, usual and largest shape, for engines that are built for a range of shapes."""
    timeout_s: float = 600.0
    precision: str = "fp32"
    """As asked of `lower`; set for an engine that computes in it by itself."""


class Program(Protocol):
    """A built engine: called with the model's tensor inputs, it gives its tensor outputs."""

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]: ...

    @property
    def info(self) -> dict[str, Any]:
        """Facts for the report: version, sizes, layers, build log."""
        ...


@dataclass(frozen=True)
class Kernel:
    """One kernel of a program: milliseconds of one run (the median), and what it computes."""

    name: str
    operator: str
    """As the engine calls it: `Conv`, `FusedMatMul`, `ReorderOutput`."""
    ms: float
    onnx: tuple[str, ...]
    """Names of the ONNX nodes that it computes, in order; none for a kernel that the engine added."""
    nodes: tuple[str, ...]
    """Names of their FX nodes."""
    main: str
    """The FX node that its time is told at: the one that the kernel is named after, else the one with weights."""


@dataclass(frozen=True)
class Engine:
    """An entry of the table."""

    name: str
    title: str
    unavailable: Callable[[], str | None]
    """None where the engine can run here, else one sentence that says what is missing and how to get it."""
    build: Callable[[Exported, BuildOptions], Program]
    computes: frozenset[str] = frozenset()
    """Precisions that it computes in by itself; for others, casts are written into the graph."""


_MODULES = {
    "onnxruntime": "onnxruntime_engine",
    "openvino": "openvino_engine",
    "tensorrt": "tensorrt_engine",
    "tensorrt_rtx": "tensorrt_engine",
}
_ENGINES: dict[str, Engine] = {}


def register(engine: Engine) -> Engine:
    _ENGINES[engine.name] = engine
    return engine


def names() -> list[str]:
    return list(_MODULES)


def get(name: str) -> Engine:
    """The engine of that name.

    Raises:
        EngineError: there is no such engine; the text lists those there are.
    """
    if name not in _MODULES:
        raise EngineError(f"there is no engine {name!r}; the engines are {', '.join(_MODULES)}")
    if name not in _ENGINES:
        import_module(f"{__package__}.engines.{_MODULES[name]}")
    return _ENGINES[name]
