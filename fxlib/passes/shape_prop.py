"""Shape propagation by running the graph: `ShapeProp` records what every node yields.

With real inputs it computes; with a ``FakeTensorMode`` it computes nothing and takes no memory, and sizes may be
symbolic. `fxlib.shapes.propagate` is the quick form for concrete sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode, fake_tensor_tls
from torch.nn.utils import stateless

from fxlib.ir.arguments import map_aggregate
from fxlib.ir.node import Node
from fxlib.shapes.metadata import TensorMetadata, extract_tensor_metadata
from fxlib.transform.interpreter import Interpreter

__all__ = ["ShapeProp", "TensorMetadata"]

_extract_tensor_metadata = extract_tensor_metadata


class ShapeProp(Interpreter):
    """Runs a graph and leaves ``meta["tensor_meta"]`` and ``meta["type"]`` on every node.

    Args:
        gm: the module to run.
        fake_mode: run with fake tensors of this mode instead; by default the mode of the surrounding context, if any.

    Example::

        ShapeProp(graph_module).propagate(torch.randn(1, 3, 224, 224))
        for node in graph_module.graph.nodes:
            print(node.name, node.meta["tensor_meta"].shape)
    """

    def __init__(self, gm: torch.nn.Module, fake_mode: FakeTensorMode | None = None) -> None:
        super().__init__(gm)
        self.fake_mode = detect_fake_mode() if fake_mode is None else fake_mode
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Run one node and record its result.

        Raises:
            RuntimeError: the node failed; the message has its arguments, source line and known metadata.
        """
        mode = contextlib.nullcontext() if self.fake_mode is None else self.fake_mode
        try:
            with mode:
                result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}{_place(n)}\n{error}"
            ) from error
        tensors: list[torch.Tensor] = []
        metadata = map_aggregate(result, lambda value: _described(value, tensors))
        if tensors:
            n.meta["tensor_meta"] = metadata
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the whole graph on ``args`` (tensors are made fake first if there is a fake mode); returns its result."""
        if self.fake_mode is None:
            return super().run(*args)
        with fake_parameters(self.module, self.fake_mode):
            return super().run(*fake_inputs(self.fake_mode, args))


def _described(value: Any, tensors: list[torch.Tensor]) -> Any:
    if torch.is_tensor(value):
        tensors.append(value)
        return extract_tensor_metadata(value)
    return value


def fake_inputs(mode: FakeTensorMode, args: tuple[Any, ...]) -> list[Any]:
    """``args`` with fake copies of the tensors among them."""
    return [mode.from_tensor(value) if torch.is_tensor(value) else value for value in args]


@contextlib.contextmanager
def fake_parameters(module: torch.nn.Module, mode: FakeTensorMode) -> Iterator[None]:
    """While active, the module's parameters and buffers are fake tensors of ``mode`` and real constants are allowed."""
    state: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    state.update(module.named_buffers(remove_duplicate=False))
    fakes: dict[str, torch.Tensor] = {name: mode.from_tensor(t, static_shapes=True) for name, t in state.items()}
    before = fake_tensor_tls.allow_non_fake_inputs_override
    fake_tensor_tls.allow_non_fake_inputs_override = True
    try:
        with stateless._reparametrize_module(module, fakes):
            yield
    finally:
        fake_tensor_tls.allow_non_fake_inputs_override = before


def _place(node: Node) -> str:
    return "" if node.span is None else f"\nat {node.span.place}"
