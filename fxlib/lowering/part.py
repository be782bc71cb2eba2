"""A part of a lowered model that an engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.lowering.engine import Program
from fxlib.lowering.onnx.export import Constant, Exported, Number


class EnginePart(torch.nn.Module):
    """A part that an engine runs. It takes the inputs and returns the results of the part's graph."""

    def __init__(self, exported: Exported, program: Program) -> None:
        super().__init__()
        self.exported = exported
        self.program = program
        # Usually all results are tensors, and need no sorting.
        plain = exported.outputs == list(range(len(exported.outputs)))
        self._single = plain and len(exported.outputs) == 1 and exported.output_spec[0].is_leaf()

    def forward(self, *args: Any) -> Any:
        results = self.program(*self._given(args))
        if self._single:
            return results[0]
        flat = iter([_value(each, results) for each in self.exported.outputs])
        spec, inner = self.exported.output_spec
        leaves = [pytree.tree_unflatten([next(flat) for _ in range(part.num_leaves)], part) for part in inner]
        return pytree.tree_unflatten(leaves, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "the program of an engine cannot be copied or pickled; save() writes a lowered model, load() reads it"
        )

    def values(self, *args: Any) -> dict[str, torch.Tensor]:
        """The results of the program's kernels, as in `Program.values`."""
        return self.program.values(self._given(args))

    def _given(self, args: Sequence[Any]) -> list[Any]:
        given = (args[index] for index in self.exported.inputs)
        return [each if isinstance(each, torch.Tensor) else _scalar(each) for each in given]


def _scalar(value: Any) -> Any:
    """A size that another part computed, in the engine's form; the program rejects anything that is not a number."""
    return torch.tensor(value) if isinstance(value, int) else value


def _value(output: int | Constant | Number, results: list[torch.Tensor]) -> Any:
    if isinstance(output, Constant):
        return output.value
    return int(results[output.index]) if isinstance(output, Number) else results[output]
