"""The names of ``torch.fx.passes.dialect.common.cse_pass``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.codegen.graph_module import GraphModule
from fxlib.compat.cse_pass import CSEPass, aten, get_CSE_banned_ops, inplace_ops, rand_ops
from fxlib.passes.infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops", "inplace_ops", "rand_ops"]
