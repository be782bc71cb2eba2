"""The names of ``torch.fx.experimental.proxy_tensor``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.codegen.graph_module import GraphModule
from fxlib.compat.proxy_tensor import __dir__, __getattr__, get_isolated_graphmodule, make_fx
