"""What an engine is: an entry of the table, the program that it builds of an ONNX model, the kernels of a program.

One engine is one file in `engines/`, whose constant `ENGINE` says everything about it; `engines` finds it there, and
the command line, the editor, the benchmark and docs/lowering.md take it from that table.
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
    """An engine refuses one node, so that the others could go without it."""

    def __init__(self, text: str, node: str) -> None:
        """
        Args:
            node: the name of the ONNX node.
        """
        super().__init__(text)
        self.node = node


@dataclass
class BuildOptions:
    """How a program is built. An engine ignores what it has no use for; `Engine.options` names what it uses."""

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
    """The precision given to `lower`, for an engine that computes in it natively."""

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: `threads` is no count of threads, or `timeout_s` no time.
            TypeError: `cache_dir` is no path, or `profiles` no mapping.
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
    """One kernel of a program, and what it computes."""

    name: str
    kind: str
    """As the engine calls it: `Conv`, `FullyConnected`, `Reorder`."""
    onnx: tuple[str, ...] = ()
    """Names of the ONNX nodes that it computes, in order; none for a kernel that the engine added."""
    nodes: tuple[str, ...] = ()
    """Names of their FX nodes."""
    main: str = ""
    """The FX node that its time is reported at."""
    tactic: str = ""
    """The implementation that the engine chose, as `brgconv_avx512_amx_bf16`; empty where it does not say."""
    types: tuple[str, ...] = ()
    """The precision that it computes in, and others that it reads or writes."""
    bytes: int = 0
    """Read and written by one run; 0 where a size is dynamic or not known."""
    ms: float | None = None
    """The median time of one run, where it was measured."""


class Program(ABC):
    """What an engine built of one ONNX model: called with the model's tensor inputs, it gives its tensor outputs."""

    info: dict[str, Any]
    """Facts for the report: version, threads, sizes; `cannot_run`, a sentence, where the program can only be built
    here."""

    @abstractmethod
    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Run it. Results belong to the caller: no later call writes into them."""

    def kernels(self) -> list[Kernel]:
        """The kernels that the engine chose, in the order in which they run; empty where it does not list them."""
        return []

    def values(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """What its kernels give on these inputs: the name of an ONNX node -> its value, where a kernel ends with that
        node. Empty where the engine does not show what is between its kernels."""
        return {}

    def timed(self, inputs: Sequence[torch.Tensor], runs: int) -> list[tuple[Kernel, list[float]]]:
        """Each kernel with its milliseconds in each of `runs` runs, measured in a program of its own: this one stays
        as fast as it is. Empty where the engine does not time its kernels."""
        return []

    def profile(self, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
        """The kernels with their times on these inputs: medians of `runs` runs after two more."""
        found = self.timed(inputs, runs + _WARM_UP)
        return [replace(kernel, ms=statistics.median(times[_WARM_UP:] or times)) for kernel, times in found]


class NothingToRun(Program):
    """The program of a part that gives no tensor."""

    info: dict[str, Any] = {}

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return []


@dataclass(frozen=True)
class Engine:
    """An entry of the table."""

    name: str
    """In `engine=`, on the command line and in saved models."""
    label: str
    """For people."""
    runs_on: str
    """The hardware, for people."""
    about: str
    """What it is good for and how far it is tested: sentences for docs/lowering.md."""
    packages: tuple[str, ...]
    """The packages that pip installs for it, in addition to `fxlens[lower]`."""
    unavailable: Callable[[], str | None]
    """What `missing` says of its own packages and hardware."""
    build: Callable[[Exported, BuildOptions], Program]
    limits: str = ""
    """What it cannot do: sentences for docs/lowering.md."""
    device: str = "cpu"
    """The type of torch device that a model must be on to be benchmarked with it: "cpu" or "cuda"."""
    precisions: tuple[str, ...] = ("fp32",)
    """The precisions that are offered and benchmarked, the usual one first. `lower` accepts the others too."""
    computes: frozenset[str] = frozenset()
    """Precisions that it computes in natively; for others, casts are written into the graph."""
    dynamic: bool = True
    """Whether dimensions may change between calls."""
    symmetric_int8: bool = False
    """Whether its 8-bit activations are signed and have no zero point; else they are unsigned and have one."""
    options: tuple[str, ...] = ()
    """The fields of `BuildOptions` that it uses."""
    lists_kernels: bool = True
    """Whether a build lists its kernels. Where it does not, `Program.kernels` builds once more, with a file of all
    weights."""
    shows_values: bool = False
    """Whether its programs give the `values` between their kernels."""
    benchmarked: bool = True
    """Whether a benchmark that names no variants includes it."""

    def missing(self) -> str | None:
        """None where a model can be lowered to it here, else one sentence: what is missing, and how to get it."""
        if find_spec("onnx_ir") is None:
            return "the package onnx_ir is not installed; `pip install 'fxlens[lower]'` adds it"
        return self.unavailable()

    def variant(self, precision: str) -> str:
        """The name of the benchmark variant that runs it in `precision`."""
        return self.name if precision == self.precisions[0] else f"{self.name}_{precision}"

    def as_dict(self) -> dict[str, Any]:
        """What a program that offers engines needs to know, plain data. `missing` says why it cannot run here."""
        return {
            "name": self.name, "label": self.label, "runs_on": self.runs_on, "precisions": list(self.precisions),
            "dynamic": self.dynamic, "missing": self.missing(),
        }  # fmt: skip
