"""A part of a lowered model that an engine runs."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.lowering.engine import Program
from fxlib.lowering.onnx.export import Constant, Exported


class EnginePart(torch.nn.Module):
    """A part that an engine runs. Called with the part's inputs, it gives what the part's graph gives."""

    def __init__(self, exported: Exported, program: Program) -> None:
        super().__init__()
        self.exported = exported
        self.program = program
        constants = [o for o in exported.outputs if isinstance(o, Constant)]
        # The usual part returns tensors only; then the results need no sorting in.
        self._plain = not constants and exported.outputs == list(range(len(exported.outputs)))
        self._inputs = exported.inputs if exported.inputs != list(range(len(exported.inputs))) else None
        self._single = self._plain and len(exported.outputs) == 1 and exported.output_spec[0].is_leaf()

    def forward(self, *args: Any) -> Any:
        plain = self._inputs is None and len(args) == len(self.exported.inputs)
        tensors = args if plain else [args[i] for i in self.exported.inputs]
        results = self.program(*tensors)
        if self._single:
            return results[0]
        flat = [o.value if isinstance(o, Constant) else results[o] for o in self.exported.outputs]
        spec, inner = self.exported.output_spec
        leaves, position = [], 0
        for part in inner:
            leaves.append(pytree.tree_unflatten(flat[position : position + part.num_leaves], part))
            position += part.num_leaves
        return pytree.tree_unflatten(leaves, spec)
