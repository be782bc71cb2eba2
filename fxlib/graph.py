"""The names of ``torch.fx.graph``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.codegen.body import _parse_stack_trace, _ParsedStackTrace
from fxlib.codegen.function import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _BoxedCodeGen,
    _override_sym_repr,
    _PyTreeCodeGen,
    _PyTreeInfo,
)
from fxlib.codegen.statements import _format_target, _is_from_torch
from fxlib.ir.arguments import Argument, Target, _legal_ops
from fxlib.ir.collections import immutable_dict
from fxlib.ir.format import (
    _is_magic,
    _snake_case,
    _type_repr,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from fxlib.ir.graph import Graph
from fxlib.ir.names import _custom_builtins, _CustomBuiltin, _illegal_names, _Namespace, _register_custom_builtin
from fxlib.ir.node import Node, map_arg
from fxlib.ir.views import _FindNodesLookupTable, _InsertPoint, _node_list

__all__ = ["CodeGen", "Graph", "PythonCode"]
