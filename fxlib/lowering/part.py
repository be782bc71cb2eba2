"""A part of a lowered model that an engine runs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.lowering.engine import EngineError, NotTaken, Program
from fxlib.lowering.onnx.export import Constant, Exported, Number


class EnginePart(torch.nn.Module):
    """A part that an engine runs. It takes the inputs and returns the results of the part's graph.

    A call for which the engine was not built runs in PyTorch: one with an empty input or one of another shape, as some
    operators give at some sizes (`squeeze` at 1), and one at which the engine fails.
    """

    def __init__(self, exported: Exported, program: Program, graph: torch.nn.Module | None = None) -> None:
        """`graph` is the part in PyTorch, if calls may run there."""
        super().__init__()
        self.exported = exported
        self.program = program
        self._graph = (graph,)  # not a submodule: it stays on the device and in the precision of the build
        self._shapes = [tuple(_fixed(size) for size in value.shape or ()) for value in exported.model.graph.inputs]
        # Usually all results are tensors, and need no sorting.
        plain = exported.outputs == list(range(len(exported.outputs)))
        self.checked = False
        """Whether results are compared with the shapes of the graph's values."""
        self._single = plain and len(exported.outputs) == 1 and exported.output_spec[0].is_leaf()

    def forward(self, *args: Any) -> Any:
        """
        Raises:
            NotTaken: the engine fails, and the part is `checked` or has no graph; the text names the node, if the
                engine does, and its line.
        """
        given, graph = self._given(args), self.graph
        if graph is not None and not self.suits(given):
            return graph(*args)
        try:
            results = self.program(*given)
        except (EngineError, TypeError):
            raise
        except Exception as error:
            failure = self._failed(str(error))
            if self.checked or graph is None:
                raise failure from error
            warnings.warn(f"{failure}. This part of the call runs in PyTorch instead", stacklevel=2)
            return graph(*args)
        if self.checked:
            self._check(given, results)
        if self._single:
            return results[0]
        flat = iter([_value(each, results) for each in self.exported.outputs])
        spec, inner = self.exported.output_spec
        leaves = [pytree.tree_unflatten([next(flat) for _ in range(part.num_leaves)], part) for part in inner]
        return pytree.tree_unflatten(leaves, spec)

    @property
    def graph(self) -> torch.nn.Module | None:
        """The part in PyTorch, if calls may run there."""
        return self._graph[0]

    def suits(self, given: Sequence[torch.Tensor]) -> bool:
        """Whether the engine was built for these inputs of the program."""
        return all(map(_suits, given, self._shapes))

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

    def _check(self, given: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        graph = self.exported.model.graph
        sizes = {
            str(size): have
            for value, tensor in zip(graph.inputs, given, strict=True)
            for size, have in zip(value.shape or (), tensor.shape, strict=False)
        }
        for output, result in zip(graph.outputs, results, strict=True):
            if output.shape is None:
                continue
            wanted = [_computed(str(size), sizes) for size in output.shape]
            have = list(result.shape)
            if len(wanted) != len(have) or any(w not in (None, h) for w, h in zip(wanted, have, strict=True)):
                name = str(output.name).partition(":")[0]
                raise NotTaken(
                    f"the engine's result of {self._place(name)} has the shape {have}, PyTorch's has "
                    f"[{', '.join(map(str, output.shape))}]",
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
        return [_stored(each) if isinstance(each, torch.Tensor) else _scalar(each) for each in given]


def _stored(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as engines read them in memory: torch may leave a negation or conjugation for later."""
    return tensor.resolve_neg().resolve_conj() if tensor.is_neg() or tensor.is_conj() else tensor


def _scalar(value: Any) -> Any:
    """A size that another part computed, in the engine's form; the program rejects anything that is not a number."""
    return torch.tensor(value) if isinstance(value, int) else value


def _value(output: int | Constant | Number, results: list[torch.Tensor]) -> Any:
    if isinstance(output, Constant):
        return output.value
    return int(results[output.index]) if isinstance(output, Number) else results[output]


def _fixed(size: Any) -> int | None:
    return size if isinstance(size, int) else None


def _suits(tensor: torch.Tensor, sizes: tuple[int | None, ...]) -> bool:
    """Whether an engine can take a tensor: it computes nothing of a size that is 0 only in some calls, as many
    operators of engines would fail, or end the process."""
    shape = tensor.shape
    return shape == sizes or (
        len(shape) == len(sizes)
        and all(have == want or (want is None and have) for have, want in zip(shape, sizes, strict=True))
    )


def _computed(size: str, sizes: dict[str, int]) -> int | None:
    """The value of an expression of sizes; None if it is not known."""
    try:
        return int(eval(size, {}, sizes))
    except Exception:
        return None
