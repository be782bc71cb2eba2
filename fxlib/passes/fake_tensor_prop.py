"""Propagation of fake tensors: `FakeTensorProp` leaves ``meta["val"]``, a fake tensor, on every node.

Sizes are symbolic where the mode has a ``ShapeEnv``, so one run describes every batch size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fxlib.ir.arguments import map_aggregate
from fxlib.ir.node import Node
from fxlib.passes.shape_prop import fake_inputs, fake_parameters
from fxlib.transform.interpreter import Interpreter

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors and records each result in ``meta["val"]``.

    Args:
        module: the module to run; its parameters may be real, they are made fake for the run.
        mode: the fake mode to use; a new one by default.

    Example: symbolic batch size ::

        from torch.fx.experimental.symbolic_shapes import ShapeEnv
        FakeTensorProp(graph_module, FakeTensorMode(shape_env=ShapeEnv())).propagate(torch.empty(8, 3, 32, 32))
    """

    def __init__(self, module: torch.nn.Module, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode
        self._mode.epoch += 1
        self._mode.reset_nt_tensor_id_counter()

    def run_node(self, n: Node) -> Any:
        """Run one node and record its result, detached from later changes in place."""
        result = super().run_node(n)
        value = map_aggregate(result, _snapshot)
        if value is not None:
            n.meta["val"] = value
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the whole graph on fake copies of ``args``; gives its result."""
        return self.propagate_dont_convert_inputs(*fake_inputs(self._mode, args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """As `propagate`, for inputs that are fake tensors of this mode already."""
        with fake_parameters(self.module, self._mode), self._mode:
            return super().run(*args)


def _snapshot(value: Any) -> Any:
    if isinstance(value, FakeTensor) or is_traceable_wrapper_subclass(value):
        return value.detach()  # type: ignore[union-attr]
    if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
        return value
    return None if not isinstance(value, (str, torch.Size, torch.dtype, torch.device)) else value
