"""The names of ``torch.fx.proxy``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.capture.proxies_with_values import MetaProxy, ParameterProxy
from fxlib.capture.proxy import Attribute, Proxy, assert_fn, log
from fxlib.capture.tracer_base import GraphAppendingTracer, Scope, ScopeContextManager, TraceError, TracerBase
from fxlib.ir.arguments import base_types
from fxlib.ir.format import magic_methods, reflectable_magic_methods
from fxlib.ir.node import Node

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
    "assert_fn",
    "base_types",
]
