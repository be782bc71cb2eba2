"""Flattening by a given structure: generated code calls it to flatten nested inputs.

``torch.utils._pytree`` flattens by the value's type; here a spec decides, so a list can be passed for a tuple and a
dict is read in the spec's order of keys.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch.return_types
from torch.utils._pytree import PyTree, TreeSpec, tree_flatten

FlattenFuncSpec = Callable[[PyTree, TreeSpec], list]
FlattenFuncExactMatchSpec = Callable[[PyTree, TreeSpec], bool]

SUPPORTED_NODES: dict[Any, FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Teach ``tree_flatten_spec`` a container type.

    Args:
        cls: the type.
        flatten_fn_spec: gives the children of a value, as many as the spec has, in its order.
        flatten_fn_exact_match_spec: says whether a value has exactly the children of the spec.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of ``pytree`` by the structure ``spec``.

    Raises:
        RuntimeError: the spec has a container type that was never registered.
        KeyError, IndexError: a child that the spec has is missing.
    """
    leaves: list[Any] = []
    # Subtrees still to be flattened, the next one last.
    pending = [(pytree, spec)]
    while pending:
        value, part = pending.pop()
        if part.is_leaf():
            leaves.append(value)
        else:
            pending += reversed([*zip(_children(value, part), part.children(), strict=False)])
    return leaves


def _children(value: PyTree, spec: TreeSpec) -> list[Any]:
    take_apart = SUPPORTED_NODES.get(spec.type)
    if take_apart is None:
        raise RuntimeError(
            f"{type(value)} does not have a flatten_fn_spec associated with it. Please register one with "
            "torch.fx._pytree.register_pytree_flatten_spec.  If you have serialized your model, make "
            "sure that any custom pytrees have been registered before loading it."
        )
    return take_apart(value, spec)


def _dict_flatten_spec(d: dict, spec: TreeSpec) -> list[Any]:
    return [d[key] for key in spec.context]


def _list_flatten_spec(d: list, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(spec.num_children)]


def _tuple_flatten_spec(d: tuple, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(spec.num_children)]


def _namedtuple_flatten_spec(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(spec.num_children)]


def _dict_flatten_spec_exact_match(d: dict, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


def _list_flatten_spec_exact_match(d: list, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


def _tuple_flatten_spec_exact_match(d: tuple, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


def _namedtuple_flatten_spec_exact_match(d: Any, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


register_pytree_flatten_spec(dict, _dict_flatten_spec, _dict_flatten_spec_exact_match)
register_pytree_flatten_spec(list, _list_flatten_spec, _list_flatten_spec_exact_match)
register_pytree_flatten_spec(tuple, _tuple_flatten_spec, _tuple_flatten_spec_exact_match)
register_pytree_flatten_spec(namedtuple, _namedtuple_flatten_spec, _namedtuple_flatten_spec_exact_match)  # type: ignore[arg-type]
for _return_type in torch.return_types.all_return_types:
    register_pytree_flatten_spec(_return_type, _tuple_flatten_spec, _tuple_flatten_spec_exact_match)

__all__ = ["register_pytree_flatten_spec", "tree_flatten", "tree_flatten_spec"]
