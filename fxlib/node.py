"""The names of ``torch.fx.node``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.ir.arguments import Argument, ArgumentT, BaseArgumentTypes, Target, _legal_ops, base_types, map_aggregate
from fxlib.ir.effects import (
    _side_effectful_functions,
    _side_effectful_need_to_be_preserved_pre_dispatch,
    has_side_effect,
)
from fxlib.ir.format import _find_module_of_method, _format_arg, _get_qualified_name, _type_repr
from fxlib.ir.node import Node, map_arg
from fxlib.ir.position import log

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]
