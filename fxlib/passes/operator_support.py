"""What a backend supports: objects that decide whether a node is supported, and ways to combine them."""

from __future__ import annotations

import abc
import typing
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fxlib.ir.node import Node
from fxlib.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

#: Types allowed for positional arguments (None: any), and for keyword arguments by name.
SupportedArgumentDTypes = (
    tuple[
        typing.Sequence[typing.Sequence[torch.dtype]],
        dict[str, typing.Sequence[torch.dtype]],
    ]
    | None
)
SupportDict = Mapping[str, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, torch.nn.Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Decides whether a backend supports a node."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """Whether ``node`` is supported; ``submodules`` are the modules of its graph by path."""


class OperatorSupport(OperatorSupportBase):
    """Support by a table from target names (``get_node_target``) to argument types.

    ``None`` supports every type. Otherwise ``((types, …), {name: types, …})`` lists types for the positional arguments
    (``None`` means any) and for keyword arguments; arguments that are not nodes are ignored.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """Whether the table has the node's target with the types of the node's arguments. Non-calls are supported."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        table, name = self._support_dict, get_node_target(submodules, node)
        return name in table and _fits(node, table[name])


class _FunctionSupport(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self._function = function

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Support decided by a function ``(submodules, node) -> bool``."""
    return _FunctionSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported if all agree."""
    return create_op_support(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported if any one agrees."""
    return create_op_support(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Supports to be combined with others by ``chain``."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: torch.dtype) -> OperatorSupportBase:
        """Rejects nodes with an input of type ``dtype``."""
        return create_op_support(
            lambda submodules, node: all(_get_arg_dtype(used) != dtype for used in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Rejects nodes whose name is in the set."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    if not isinstance(arg, Node):
        raise AssertionError(f"Expected fx.Node, got {type(arg)}")
    dtype = getattr(arg.meta.get("tensor_meta"), "dtype", None)
    return arg.meta["type"] if dtype is None else dtype


def _fits(node: Node, allowed: SupportedArgumentDTypes) -> bool:
    if allowed is None:
        return True
    by_position, by_name = allowed
    pairs = list(zip(node.args, by_position, strict=False))
    pairs += [(node.kwargs[name], dtypes) for name, dtypes in by_name.items() if name in node.kwargs]
    checked = [(arg, dtypes) for arg, dtypes in pairs if isinstance(arg, Node) and dtypes is not None]
    return all(_get_arg_dtype(arg) in dtypes for arg, dtypes in checked)
