"""A part of a lowered model that an engine runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.lowering.engine import EngineError, NotTaken, Program
from fxlib.lowering.onnx.export import Constant, Exported, Number


class EnginePart(torch.nn.Module):
    """A part that an engine runs. It takes the inputs and returns the results of the part's graph."""

    def __init__(self, exported: Exported, program: Program) -> None:
        super().__init__()
        self.exported = exported
        self.program = program
        # Usually all results are tensors, and need no sorting.
        plain = exported.outputs == list(range(len(exported.outputs)))
        self.checked = False
        """Whether results are compared with the shapes of the graph's values."""
        self._single = plain and len(exported.outputs) == 1 and exported.output_spec[0].is_leaf()

    def forward(self, *args: Any) -> Any:
        """
        Raises:
            NotTaken: the engine fails; the text names the node, if the engine does, and its line.
        """
        given = self._given(args)
        try:
            results = self.program(*given)
        except (EngineError, TypeError):
            raise
        except Exception as error:
            raise self._failed(str(error)) from error
        if self.checked:
            self._check(results)
        if self._single:
            return results[0]
        flat = iter([_value(each, results) for each in self.exported.outputs])
        spec, inner = self.exported.output_spec
        leaves = [pytree.tree_unflatten([next(flat) for _ in range(part.num_leaves)], part) for part in inner]
        return pytree.tree_unflatten(leaves, spec)

    def _failed(self, text: str) -> NotTaken:
        nodes = [str(node.name) for node in self.exported.model.graph]
        found = max(
            (name for name in nodes if re.search(rf"(?<![\w/.]){re.escape(name)}(?![\w/.])", text)),
            key=len,
            default=None,
        )
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Exception from ")]
        why = " ".join(lines)[:300]
        if found is None:
            return NotTaken(f"the engine fails when it runs this part: {why}", *nodes)
        return NotTaken(f"the engine fails when it runs {self._place(found)}: {why}", found)

    def _place(self, name: str) -> str:
        node = next(node for node in self.exported.model.graph if node.name == name)
        file, _, rest = node.metadata_props.get("fx.span", "").rpartition(".py:")
        where = f" ({file}.py:{rest.partition(':')[0]})" if file else ""
        return f"{node.op_type} of node {node.metadata_props['fx.node']!r}{where}"

    def _check(self, results: Sequence[torch.Tensor]) -> None:
        for output, result in zip(self.exported.model.graph.outputs, results, strict=True):
            if output.shape is None:
                continue
            sizes = list(output.shape)
            same = len(sizes) == result.dim() and all(
                not isinstance(want, int) or want == have for want, have in zip(sizes, result.shape, strict=True)
            )
            if not same:
                name = str(output.name).partition(":")[0]
                raise NotTaken(
                    f"the engine's result of {self._place(name)} has the shape {list(result.shape)}, PyTorch's has "
                    f"{sizes}",
                    name,
                )

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
