"""The names of ``torch.fx._pytree``, for programs that import them from there."""
# ruff: noqa: F401

from fxlib.ir.pytree import (
    SUPPORTED_NODES,
    SUPPORTED_NODES_EXACT_MATCH,
    FlattenFuncExactMatchSpec,
    FlattenFuncSpec,
    _deregister_pytree_flatten_spec,
    _dict_flatten_spec,
    _dict_flatten_spec_exact_match,
    _list_flatten_spec,
    _list_flatten_spec_exact_match,
    _namedtuple_flatten_spec,
    _namedtuple_flatten_spec_exact_match,
    _tuple_flatten_spec,
    _tuple_flatten_spec_exact_match,
    register_pytree_flatten_spec,
    tree_flatten_spec,
)

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]
