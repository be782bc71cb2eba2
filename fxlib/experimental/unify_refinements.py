"""Solving the equalities of `graph_gradual_typechecker.Refine`, and writing the solution into a graph's types."""

from __future__ import annotations

from typing import Any

from ..graph import Graph
from ..graph_module import GraphModule
from ..tensor_type import TensorType
from .graph_gradual_typechecker import Refine
from .refinement_types import Equality
from .unification import Var, unify

__all__ = [
    "check_for_type_equality",
    "convert_eq",
    "infer_symbolic_types",
    "infer_symbolic_types_single_pass",
    "substitute_all_types",
    "substitute_solution_one_type",
    "unify_eq",
]


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """Names the unknown sizes of a checked graph; those that are equal get one name."""
    refined = Refine(traced)
    refined.refine()
    substitute_all_types(traced.graph, unify_eq(refined.constraints))


def infer_symbolic_types(traced: GraphModule) -> None:
    """The same twice, since equalities that the first round finds can give new ones, and then sizes as expressions of
    others (`Refine.symbolic_relations`).

    Example::

        GraphTypeChecker({}, gm).type_check()
        infer_symbolic_types(gm)  # a batch of unknown size has one name in every node's type
    """
    infer_symbolic_types_single_pass(traced)
    refined = Refine(traced)
    refined.refine()
    substitute_all_types(traced.graph, unify_eq(refined.constraints))
    refined.symbolic_relations()


def convert_eq(list_of_eq: list[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The left sides and the right sides, for ``unify``."""
    return tuple(eq.lhs for eq in list_of_eq), tuple(eq.rhs for eq in list_of_eq)


def unify_eq(list_of_eq: list[Equality]) -> Any:
    """Values for the variables with which all equalities hold, or ``False``."""
    return unify(*convert_eq(list_of_eq))


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """A type with each variable replaced by its value, as far as ``mapping`` goes."""
    if isinstance(t, Var):
        seen = {t}
        while t in mapping and mapping[t] not in seen:
            t = mapping[t]
            if not isinstance(t, Var):
                break
            seen.add(t)
        return t
    if isinstance(t, TensorType):
        return TensorType(tuple(substitute_solution_one_type(mapping, size) for size in t.__args__))
    if type(t) in (list, tuple):
        return type(t)(substitute_solution_one_type(mapping, item) for item in t)
    return t


def substitute_all_types(graph: Graph, mapping: dict[Any, Any]) -> None:
    """`substitute_solution_one_type` for each node's type.

    Raises:
        TypeError: ``mapping`` is ``False``: the equalities contradict each other.
    """
    if not isinstance(mapping, dict):
        raise TypeError("the equalities between the sizes of this graph contradict each other")
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether two graphs of as many nodes have the same types, node by node."""
    return all(a.type == b.type for a, b in zip(g1.nodes, g2.nodes, strict=False))
