"""ONNX's reference implementation: slow, but without optimizations that could be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fxlib.lowering.engine import BuildOptions, Engine, EngineError, Kernel, Program
from fxlib.lowering.kernels import described

if TYPE_CHECKING:
    from fxlib.lowering.onnx.export import Exported


def unavailable() -> str | None:
    if find_spec("onnx") is None:
        return "the package onnx is not installed; `pip install onnx` adds it"
    return None


class ReferenceProgram(Program):
    """Runs the nodes of the model one by one on NumPy arrays."""

    def __init__(self, exported: Exported, options: BuildOptions) -> None:
        import onnx
        import onnx_ir as ir
        from onnx.reference import ReferenceEvaluator

        if options.precision == "bf16":
            raise EngineError('NumPy has no bf16, so the ONNX reference cannot run it; use precision="fp32" or "fp16"')
        try:
            self._evaluator = ReferenceEvaluator(ir.to_proto(exported.model))
        except Exception as error:
            raise EngineError(f"onnx {onnx.__version__} has no reference for the model: {error}") from error
        self._exported = exported
        self._names = [str(value.name) for value in exported.model.graph.inputs]
        self.info = {"version": onnx.__version__, "onnx_nodes": len(exported.model.graph)}

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        # A result can be an input or a weight itself, or a view of one.
        return [torch.from_numpy(np.array(value)) for value in self._evaluator.run(None, self._feed(inputs))]

    def kernels(self) -> list[Kernel]:
        """One kernel for each node."""
        nodes = self._exported.model.graph
        return [described(self._exported, str(node.name), node.op_type, [node]) for node in nodes]

    def values(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        found: Any = self._evaluator.run(None, self._feed(inputs), intermediate=True)
        names = {str(node.outputs[0].name): str(node.name) for node in self._exported.model.graph}
        return {names[name]: torch.from_numpy(np.array(value)) for name, value in found.items() if name in names}

    def _feed(self, inputs: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
        return {name: tensor.detach().cpu().numpy() for name, tensor in zip(self._names, inputs, strict=True)}


ENGINE = Engine(
    name="reference",
    label="ONNX reference",
    runs_on="CPU",
    about=(
        "Tells whether a wrong result comes from the conversion or from an engine: lower the model to both and "
        "compare. The forms in [operators.md](operators.md) agree with eager, except five that its tests name."
    ),
    limits=(
        "It is slow (ResNet-50: two seconds an image), runs no bf16, and computes those five forms wrongly or not "
        "at all."
    ),
    packages=("onnx",),
    unavailable=unavailable,
    build=ReferenceProgram,
    precisions=("fp32", "fp16"),
    benchmarked=False,
    shows_values=True,
)
