"""Common subexpression elimination as a pass object, for pass managers. ``fxlib.passes.cse`` is the pass itself."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.arguments import Target
from fxlib.passes.cse import eliminate_common_subexpressions
from fxlib.passes.infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops", "inplace_ops", "rand_ops"]

aten = torch.ops.aten

_RANDOM = (
    "_fused_dropout _standard_gamma bernoulli binomial dropout multinomial native_dropout normal poisson "
    "rand rand_like randint randn randperm rrelu"
)
_IN_PLACE = "add_ div_ lerp_ mul_ pow_ relu_ sigmoid_ sub_ tanh_"
rand_ops: set[Target] = {getattr(aten, name) for name in _RANDOM.split()}
inplace_ops: set[Target] = {getattr(aten, name) for name in _IN_PLACE.split()}


def get_CSE_banned_ops() -> set[Target]:
    """Operators of which two calls with the same arguments are two values: random ones and those in place."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """Replaces nodes that compute the same by the first of them.

    Example::

        result = CSEPass()(make_fx(lambda a: a * a + a * a)(torch.ones(3)))
        result.modified, result.graph_module

    Args:
        banned_ops: operators to leave alone in addition to what cannot be merged anyway: random operators, and values
            that the graph changes in place.
    """

    def __init__(self, banned_ops: Iterable[Target] | None = None) -> None:
        super().__init__()
        self.banned_ops = set() if banned_ops is None else set(banned_ops)

    def call(self, graph_module: GraphModule) -> PassResult:
        """A copy without the repetitions; parameters and submodules are shared with ``graph_module``."""
        source = adopted(graph_module)
        result = GraphModule(source, copy.deepcopy(source.graph))
        eliminate_common_subexpressions(result, self.banned_ops)
        return PassResult(result, result.meta.pop("cse") > 0)
