"""The names of ``torch.fx.graph_module``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.codegen.calls import _WrappedCall
from fxlib.codegen.compile import (
    FX_GRAPH_MODULE_FILE_PREFIX,
    _EvalCacheLoader,
    _exec_with_source,
    _forward_from_src,
    _loader,
    _method_from_src,
)
from fxlib.codegen.function import PythonCode, _BoxedCodeGen, _override_sym_repr, _PyTreeCodeGen
from fxlib.codegen.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY, GraphModule
from fxlib.codegen.imports import _format_import_block, _format_import_statement
from fxlib.codegen.pickling import _deserialize_graph_module, reduce_graph_module, reduce_package_graph_module
from fxlib.codegen.readable import _print_readable
from fxlib.codegen.roots import _CodeOnlyModule
from fxlib.codegen.statements import _is_from_torch
from fxlib.ir.graph import Graph
from fxlib.ir.names import _custom_builtins
from fxlib.ir.paths import _assign_attr, _copy_attr, _del_attr, _get_attr, _get_attr_via_attr_list, _has_attr

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]
