"""The interface of an engine: its entry in the table, the program that it builds from an ONNX model, and the program's
kernels.

One engine is one file in `engines/` whose constant `ENGINE` describes it; the command line, the editor, the benchmark
and docs/lowering.md use the table of these.
"""

from __future__ import annotations

import os
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from fxlib.lowering.inputs import Dynamic
    from fxlib.lowering.onnx.export import Exported

_WARM_UP = 2


class EngineError(RuntimeError):
    """An engine is missing or failed; the text says what to do."""


class NotTaken(EngineError):
    """An engine rejects some nodes, or fails at them, and could run the others without them."""

    def __init__(self, text: str, *nodes: str) -> None:
        """
        Args:
            nodes: the names of the ONNX nodes.
        """
        super().__init__(text)
        self.nodes = nodes


@dataclass
class BuildOptions:
    """How a program is built. An engine ignores options that it does not support; `Engine.options` names those that it
    uses."""

    threads: int | None = None
    """Threads for one call; None is torch's number of threads."""
    device: str = "cpu"
    cache_dir: str | None = None
    """Where built engines are kept; None is the user's cache folder."""
    dynamic: Dynamic = None
    profiles: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] = field(default_factory=dict)
    """Input name -> smallest, usual and largest shape, for engines that are built for a range of shapes."""
    timeout_s: float = 600.0
    precision: str = "fp32"
    """The precision given to `lower`, for engines that support it natively."""

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: `threads` is not a thread count, or `timeout_s` not a duration.
            TypeError: `cache_dir` is not a path, or `profiles` not a mapping.
        """
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            raise ValueError(f"BuildOptions: threads must be a number of 1 or more, or None, not {self.threads!r}")
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, (int, float)) or not self.timeout_s > 0:
            raise ValueError(f"BuildOptions: timeout_s must be a number of seconds above 0, not {self.timeout_s!r}")
        if self.cache_dir is not None and not isinstance(self.cache_dir, (str, os.PathLike)):
            raise TypeError(f"BuildOptions: cache_dir must be a path, not {type(self.cache_dir).__name__}")
        if not isinstance(self.profiles, Mapping):
            kind = type(self.profiles).__name__
            raise TypeError(f"BuildOptions: profiles must be a mapping of inputs to three shapes, not {kind}")


@dataclass(frozen=True)
class Kernel:
    """One kernel of a program, and the nodes that it computes."""

    name: str
    kind: str
    """The engine's name for it: `Conv`, `FullyConnected`, `Reorder`."""
    onnx: tuple[str, ...] = ()
    """Names of the ONNX nodes that it computes, in order; none for a kernel that the engine added."""
    nodes: tuple[str, ...] = ()
    """Names of their FX nodes."""
    main: str = ""
    """The FX node that its time is reported at."""
    tactic: str = ""
    """The implementation that the engine chose, such as `brgconv_avx512_amx_bf16`; empty if unknown."""
    types: tuple[str, ...] = ()
    """The precision of the computation, and others that it reads or writes."""
    bytes: int = 0
    """Bytes read and written by one run; 0 if a size is dynamic or unknown."""
    ms: float | None = None
    """The median time of one run, if measured."""


class Program(ABC):
    """The result of building one ONNX model: called with the model's tensor inputs, it returns its tensor outputs."""

    info: dict[str, Any]
    """Facts for the report: version, threads, sizes; `cannot_run`, a sentence, if the program can only be built here.
    """

    @abstractmethod
    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Run it. No later call writes into the returned tensors."""

    def kernels(self) -> list[Kernel]:
        """The kernels that the engine chose, in the order in which they run; empty if it does not list them."""
        return []

    def values(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The results of its kernels on these inputs: the name of the last ONNX node of a kernel -> its value. Empty if
        the engine does not expose intermediate values."""
        return {}

    def timed(self, inputs: Sequence[torch.Tensor], runs: int) -> list[tuple[Kernel, list[float]]]:
        """Each kernel with its milliseconds in each of `runs` runs, measured in a separate program, so that this one is
        not slowed down. Empty if the engine does not time its kernels."""
        return []

    def profile(self, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
        """The kernels with their times on these inputs: medians of `runs` runs after two warm-up runs."""
        found = self.timed(inputs, runs + _WARM_UP)
        return [replace(kernel, ms=statistics.median(times[_WARM_UP:] or times)) for kernel, times in found]


class NothingToRun(Program):
    """The program of a part without tensor outputs."""

    info: dict[str, Any] = {}

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return []


@dataclass(frozen=True)
class Engine:
    """An entry of the table."""

    name: str
    """The name for `engine=`, on the command line and in saved models."""
    label: str
    """The display name."""
    runs_on: str
    """The hardware, as text."""
    about: str
    """Its use and how far it is tested: sentences for docs/lowering.md."""
    packages: tuple[str, ...]
    """The packages that pip installs for it, in addition to `fxlens[lower]`."""
    unavailable: Callable[[], str | None]
    """The part of `missing` for its own packages and hardware."""
    build: Callable[[Exported, BuildOptions], Program]
    limits: str = ""
    """Its limitations: sentences for docs/lowering.md."""
    device: str = "cpu"
    """The type of torch device that a model must be on to be benchmarked with it: "cpu" or "cuda"."""
    precisions: tuple[str, ...] = ("fp32",)
    """The precisions that are offered and benchmarked, the usual one first. `lower` accepts the others too."""
    computes: frozenset[str] = frozenset()
    """Precisions that it computes in natively; for others, casts are written into the graph."""
    dynamic: bool = True
    """Whether dimensions may change between calls."""
    symmetric_int8: bool = False
    """Whether its 8-bit activations are signed and have no zero point; otherwise they are unsigned and have one."""
    options: tuple[str, ...] = ()
    """The fields of `BuildOptions` that it uses."""
    lists_kernels: bool = True
    """Whether a build lists its kernels. Otherwise `Program.kernels` builds again, with a file of all weights."""
    shows_values: bool = False
    """Whether its programs provide the `values` between their kernels."""
    benchmarked: bool = True
    """Whether a benchmark that names no variants includes it."""

    def missing(self) -> str | None:
        """None if a model can be lowered to it here; otherwise one sentence: what is missing, and how to get it."""
        if find_spec("onnx_ir") is None:
            return "the package onnx_ir is not installed; `pip install 'fxlens[lower]'` adds it"
        return self.unavailable()

    def variant(self, precision: str) -> str:
        """The name of the benchmark variant that runs it in `precision`."""
        return self.name if precision == self.precisions[0] else f"{self.name}_{precision}"

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain data, for programs that offer engines. `missing` says why it cannot run here."""
        return {
            "name": self.name, "label": self.label, "runs_on": self.runs_on, "precisions": list(self.precisions),
            "dynamic": self.dynamic, "missing": self.missing(),
        }  # fmt: skip
