"""The import path that torch.fx users know for tracing: ``from fxlib._symbolic_trace import Tracer, wrap, PH``."""

from __future__ import annotations

import math
from typing import Any

from fxlib.capture import wrapping
from fxlib.capture.proxies_with_values import ParameterProxy  # noqa: F401
from fxlib.capture.proxy import Proxy  # noqa: F401
from fxlib.capture.proxyable import ProxyableClassMeta, _proxyable_classes
from fxlib.capture.root import _constant_attribute_types
from fxlib.capture.root_arguments import PH, PHBase, PHWithMeta, _assert_is_none, _transfer_attrs
from fxlib.capture.scopes import Scope, ScopeContextManager
from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.capture.tracer import Tracer
from fxlib.capture.tracer_base import TracerBase  # noqa: F401
from fxlib.capture.wrapping import (
    Patcher,
    _create_wrapped_func,
    _create_wrapped_method,
    _wrapped_fns_to_patch,
    _wrapped_methods_to_patch,
    find_proxy,
    is_fx_symbolic_tracing,
    is_fx_tracing,
    patch_scope,
    patches_reverted,
    wrap,
)
from fxlib.codegen.graph_module import GraphModule  # noqa: F401
from fxlib.ir.arguments import base_types, map_aggregate  # noqa: F401

# Names that programs import from here although other files define them.
from fxlib.ir.graph import Graph  # noqa: F401

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Scope",
    "ScopeContextManager",
    "Tracer",
    "_assert_is_none",
    "_constant_attribute_types",
    "_create_wrapped_func",
    "_create_wrapped_method",
    "_proxyable_classes",
    "_transfer_attrs",
    "_wrapped_fns_to_patch",
    "_wrapped_methods_to_patch",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "math",
    "symbolic_trace",
    "wrap",
]

# Generated code calls it by this module's name, and may be traced again, for example by unpickling.
wrap("_assert_is_none")

_Patcher = Patcher
_find_proxy = find_proxy
_new_patcher = patch_scope
_maybe_revert_all_patches = patches_reverted


def _autowrap_check(patcher: Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Wrap the functions of ``function_ids`` that a namespace names; at most once per namespace and patcher."""
    patcher.autowrap(frame_dict, function_ids)


def _patch_wrapped_functions(patcher: Patcher) -> None:
    """Wrap every function that is registered as a leaf."""
    wrapping.patch_registered(patcher)


def __getattr__(name: str) -> Any:
    if name == "_is_fx_tracing_flag":
        return is_fx_tracing()
    if name == "CURRENT_PATCHER":
        return wrapping._current
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
