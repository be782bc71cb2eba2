"""Unification: values for variables such that two structures are equal.

Example::

    x, y = var("x"), var("y")
    unify((1, x, (3, y)), (1, 2, (3, x)))  # {~x: 2, ~y: 2}
    reify((x, [y]), {x: 1, y: 2})  # (1, [2])
"""

from .core import reify, unify
from .variable import Var, isvar, var, variables, vars

__all__ = ["Var", "isvar", "reify", "unify", "var", "variables", "vars"]
