"""`lower`: from a model to an equivalent module that runs on an engine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fxlib.capture.module_state import unchanged
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.leaves import cast, copied
from fxlib.ir.modules import data_kept
from fxlib.lowering.capture import Captured, export_instead
from fxlib.lowering.difference import difference, in_words, mismatch
from fxlib.lowering.engine import BuildOptions, Engine, EngineError, NothingToRun, NotTaken, Program
from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.inputs import Dynamic, Inputs
from fxlib.lowering.onnx.export import Reason
from fxlib.lowering.part import EnginePart
from fxlib.lowering.prepare import Prepared, precision_of_graph, prepare, prepare_captured
from fxlib.lowering.profile import LayerTime, layer_times
from fxlib.lowering.report import LoweringReport
from fxlib.lowering.split import MIN_NODES
from fxlib.lowering.store import read, save
from fxlib.lowering.structure import Form, put_together, take_apart
from fxlib.passes.aliases import Aliases


class LoweredModule(torch.nn.Module):
    """A lowered model: callable like the model it came from.

    Attributes:
        report: parts, reasons, sizes, times, and the difference from eager.
    """

    def __init__(
        self, module: torch.nn.Module, report: LoweringReport, options: BuildOptions, inputs: Inputs,
        output: Form | None,
    ) -> None:  # fmt: skip
        """
        Args:
            module: the parts; it takes the tensors of `inputs`.
            output: the structure of the result, if `module` returns only its tensors.
        """
        super().__init__()
        self.module = module
        self.report = report
        self.options = options
        self.inputs = inputs
        self.output = output
        self.training = False  # parts in PyTorch contain layers of the model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model.

        Raises:
            TypeError, ValueError: an argument does not match the example that the model was lowered with.
        """
        tensors = self.inputs.of_call(args, kwargs, f"lowered {self.report.model}")
        self.inputs.check_sizes(tensors, f"lowered {self.report.model}")
        try:
            with torch.no_grad():
                result = self.module(*tensors)
        except Exception as error:
            problem = self.inputs.problem(tensors, f"lowered {self.report.model}")
            if problem is None:
                raise
            raise problem from error
        return result if self.output is None else put_together(self.output, iter(result))

    def train(self, mode: bool = True) -> LoweredModule:
        if mode:
            raise RuntimeError(
                f"{self.report.model} was lowered to {self.report.label} for inference; train the original model"
            )
        return super().train(False)

    def engine_parts(self) -> list[tuple[str, EnginePart]]:
        return [(name, m) for name, m in self.module.named_modules() if isinstance(m, EnginePart)]

    def profile(self, *args: Any, runs: int = 10) -> list[LayerTime]:
        """The time of each layer on these inputs; `fxlib.lowering.LayerTime` has its source line.

        Raises:
            ValueError: `runs` is not a positive number.
            TypeError, ValueError: as `forward`.
        """
        if type(runs) is not int or runs < 1:
            raise ValueError(f"profile(): runs must be 1 or more, not {runs!r}")
        return layer_times(self, self.report, args, runs)

    def list_kernels(self) -> None:
        """Add the kernels that each engine chose to the report: `report.parts[…].kernels`."""
        rows = {row.name: row for row in self.report.parts}
        for name, part in self.engine_parts():
            rows[name.rpartition(".")[2]].kernels = part.program.kernels()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lowered model to the directory `path`; `fxlib.lowering.load` reads it back. Unless all of it can be
        written, an earlier model stays there, or nothing.

        Raises:
            TypeError, ValueError: `path` is no path of a folder.
            OSError: it cannot be written, or is a file.
            UntrustedModel: this user's key is damaged.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"save() takes a path, not {type(path).__name__}")
        if not os.fspath(path):
            raise ValueError("save() takes the path of a folder, not an empty text")
        if Path(path).is_file():
            raise FileExistsError(f"save() writes a folder, and {str(path)!r} is a file")
        state = {"report": self.report, "options": self.options, "inputs": self.inputs, "output": self.output}
        save(Path(path), self.module, state)


def load(path: str | os.PathLike[str], *, trusted: bool = False) -> LoweredModule:
    """Read a lowered model back and build its engines again.

    Args:
        path: the directory that `LoweredModule.save` wrote.
        trusted: load it even if it was not written by this user. It can run any code.

    Raises:
        FileNotFoundError: there is no saved model at `path`.
        UntrustedModel: the seal is missing or does not fit.
        ValueError: the directory is of another format.
        EngineError: its engine is not installed here.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"load() takes a path, not {type(path).__name__}")
    module, state = read(Path(path), trusted)
    return LoweredModule(module, **state)


def lower(
    model: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    engine: str = DEFAULT,
    precision: str = "fp32",
    dynamic: Dynamic = None,
    capture: str | None = None,
    concrete_args: Mapping[str, Any] | None = None,
    min_nodes: int = MIN_NODES,
    options: BuildOptions | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> LoweredModule:
    """Lower a model to an engine; nodes without a converter stay in PyTorch.

    Args:
        model: a module in evaluation mode (captured here) or a GraphModule.
        example_inputs: one value per argument of `forward`, or a mapping of their names to values. With real data the
            result is compared with eager. Values that are not tensors become constants of the lowered model.
        engine: the name of an engine; `fxlib.lowering.table()` has them.
        precision: "fp32", "fp16" or "bf16", by casts in the graph, or in the engine if it supports the precision;
            inputs and outputs keep their dtypes. int8 comes from quantize and dequantize nodes in the graph.
        dynamic: the dimensions that may change between calls; see `fxlib.lowering.inputs.Dynamic`.
        capture: "fx" for a symbolic trace, "export" for torch.export; None is the first that succeeds, and the report
            says which.
        concrete_args: further arguments of `forward` by name, as in `fxlib.symbolic_trace`.
        min_nodes: the smallest number of operators in a part that goes to the engine.
        options: options for the build.
        progress: called with the stage's name and the fraction done, between stages and before each build.

    Raises:
        EngineError: the engine is missing, or rejected the model.
        ValueError: the model is in training mode, or an option is unknown.
        TypeError: an argument is of the wrong type, or the inputs do not fit.
        CaptureError: neither torch.fx nor torch.export captures the model.

    Example::

        lowered = fxlib.lower(ResNet50().eval(), (torch.randn(1, 3, 224, 224),))
        print(lowered.report)
    """
    chosen = get(engine)
    if missing := chosen.missing():
        raise EngineError(f"cannot lower to {chosen.label}: {missing}")
    half = precision_of_graph(model, chosen, precision, capture, min_nodes, "lower()")
    if any(p.is_meta for p in model.parameters()):
        raise ValueError(f"{type(model).__name__} is on the meta device; an engine needs the data of its weights")
    if options is not None and not isinstance(options, BuildOptions):
        raise TypeError(f"lower(): options must be a fxlib.lowering.BuildOptions, not {type(options).__name__}")
    if progress is not None and not callable(progress):
        raise TypeError(f"lower(): progress must be a function of a text and a fraction, not {type(progress).__name__}")
    options = replace(options or BuildOptions(), dynamic=dynamic, precision=precision)
    say = progress or (lambda stage, done: None)
    prepared = prepare(
        model, example_inputs, dynamic=dynamic, concrete_args=concrete_args, wanted=capture, dtype=half,
        min_nodes=min_nodes, say=say,
    )  # fmt: skip
    made = _Made(model, prepared, chosen, options, precision, half)
    lowered = made.proven(say)
    if capture is None and (misled := made.misled(lowered)):
        exported = export_instead(model, prepared.inputs, half, misled)
        made.prepared = prepare_captured(prepared.inputs, exported, min_nodes, say=say)
        lowered = made.proven(say)
    say("done", 1.0)
    return lowered


_APART = 1e-2
"""A relative difference from eager that is too large for any engine in fp32."""


@dataclass
class _Made:
    """A lowered model under construction."""

    model: torch.nn.Module
    prepared: Prepared
    engine: Engine
    options: BuildOptions
    precision: str
    half: torch.dtype | None
    """The dtype of the graph's floating-point values."""

    def proven(self, say: Callable[[str, float], None]) -> LoweredModule:
        """Build, and compare with eager. What the engine cannot run on the example inputs stays in PyTorch.

        Raises:
            EngineError, ValueError: as `build`.
        """
        while True:
            lowered = self.build(say)
            say("compare", 0.95)
            try:
                self.compare(lowered)
                return lowered
            except NotTaken as error:
                if not self.prepared.leave(error.nodes, Reason("FX499", str(error)), alike=False):
                    raise

    def build(self, say: Callable[[str, float], None]) -> LoweredModule:
        """Build a program of the engine for each part. A node that it rejects stays in PyTorch.

        Raises:
            EngineError: it rejects the model.
            ValueError: the model itself fails.
        """
        start = time.perf_counter()
        while True:
            prepared = self.prepared
            if "profiles" in self.engine.options:
                prepared.add_profiles()
            try:
                programs = self._programs(say)
                break
            except NotTaken as error:
                if not prepared.leave(error.nodes, Reason("FX499", str(error))):
                    raise
            except EngineError:
                _run(self.model, prepared.inputs, self._writes())
                raise
        report = prepared.report(type(self.model).__name__, self.engine.name, self.engine.label, self.precision)
        rows = {row.name: row for row in report.parts}
        for name, (program, ms) in programs.items():
            rows[name].build_ms, rows[name].info = ms, dict(program.info)
            graph = getattr(prepared.cut.module, name)
            setattr(prepared.cut.module, name, EnginePart(prepared.exports[name], program, graph))
        report.timings["build"] = (time.perf_counter() - start) * 1e3
        outer: torch.nn.Module = prepared.cut.module
        casting = outer if self.half is None else _Casting(outer, self.half)
        return LoweredModule(casting, report, self.options, prepared.inputs, prepared.captured.output)

    def _programs(self, say: Callable[[str, float], None]) -> dict[str, tuple[Program, float]]:
        """The program of each part, and its build time in milliseconds."""
        found: dict[str, tuple[Program, float]] = {}
        for name, exported in self.prepared.exports.items():
            say(f"build {name}", 0.3 + 0.6 * len(found) / len(self.prepared.exports))
            begun = time.perf_counter()
            # An engine rejects a model without outputs, as for an unused result.
            program = self.engine.build(exported, self.options) if exported.model.graph.outputs else NothingToRun()
            found[name] = program, (time.perf_counter() - begun) * 1e3
        return found

    def _writes(self) -> bool:
        """Whether forward writes to parameters."""
        return Aliases(self.prepared.captured.gm).changes_state()

    def compare(self, lowered: LoweredModule) -> None:
        """Run both on the example inputs and write the largest differences into the report; does nothing if the inputs
        have no data. State that forward changes is restored."""
        inputs, report, writes = lowered.inputs, lowered.report, self._writes()
        if any(tensor.is_meta for tensor in [*inputs.tensors, *self.model.parameters()]):
            return
        if any("cannot_run" in part.info for part in report.parts):
            return
        start = time.perf_counter()
        calls = 2 if writes else 1  # the second call reads the state that the first one changed
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            expected = _run(self.model, inputs, writes, calls)
            torch.manual_seed(0)  # what is random stays in PyTorch, and draws the same numbers
            with unchanged(self.model), data_kept(self.model, writes), checked(lowered):
                got = [inputs.call(lowered, copied(inputs.tensors)) for _ in range(calls)]
        report.mismatch = mismatch(expected, got)
        tensors = (take_apart(each)[0] for each in (expected, got))
        report.max_abs_error, report.max_rel_error = (math.inf,) * 2 if report.mismatch else difference(*tensors)
        report.timings["compare"] = (time.perf_counter() - start) * 1e3

    def misled(self, lowered: LoweredModule) -> str | None:
        """If the result differs from eager because of the trace, not the engine: its error, as text."""
        captured, inputs, found = self.prepared.captured, lowered.inputs, lowered.report.max_rel_error
        traced = captured.by == "fx" and not isinstance(adopted(self.model), GraphModule) and self.half is None
        if not traced or found is None or found < _APART:
            return None
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            runs = []
            for run in (self._eager, self._eager, self._graph):
                torch.manual_seed(0)
                runs.append(take_apart(run(captured, inputs))[0])
        again, traced_apart = (difference(runs[0], each)[1] for each in runs[1:])
        if again > _APART or traced_apart < _APART:
            return None
        return f"its trace gives another result than forward (relative difference {in_words(traced_apart)})"

    def _eager(self, captured: Captured, inputs: Inputs) -> Any:
        return _run(self.model, inputs, True)

    def _graph(self, captured: Captured, inputs: Inputs) -> Any:
        with unchanged(self.model), data_kept(self.model, True):
            return copied(captured.gm(*copied(captured.tensors)))


@contextmanager
def checked(lowered: LoweredModule) -> Iterator[None]:
    """Within it, a result of another shape than PyTorch's is an error."""
    parts = [part for _, part in lowered.engine_parts()]
    for part in parts:
        part.checked = True
    try:
        yield
    finally:
        for part in parts:
            part.checked = False


def _run(model: torch.nn.Module, inputs: Inputs, writes: bool, calls: int = 1) -> list[Any]:
    """The results of calling the model itself on the example; its state is restored, and its parameters with `writes`.

    Raises:
        ValueError: the model fails.
    """
    try:
        with torch.no_grad(), unchanged(model), data_kept(model, writes):
            return [copied(inputs.call(model, copied(inputs.tensors))) for _ in range(calls)]
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{type(model).__name__} itself fails on example_inputs: {lines[0]}") from error


class _Casting(torch.nn.Module):
    """Casts floating-point inputs to the precision of the graph and outputs back."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module, dtype

    def forward(self, *tensors: torch.Tensor) -> Any:
        floating = (tensor.dtype for tensor in tensors if tensor.is_floating_point())
        return cast(self.module(*cast(tensors, self.dtype)), next(floating, torch.float32))
