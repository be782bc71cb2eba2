"""Logic variables."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable, Iterator

__all__ = ["Var", "isvar", "var", "variables", "vars"]

_numbers = itertools.count(1)
_declared: set[Hashable] = set()  # other values that are variables for a while


class Var:
    """A logic variable, equal to every other one with its token; without a token it is like no other."""

    __slots__ = ("token",)

    def __init__(self, *token: Hashable) -> None:
        self.token = token[0] if token else f"_{next(_numbers)}"

    def __repr__(self) -> str:
        return f"~{self.token}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and self.token == other.token

    def __hash__(self) -> int:
        return hash((Var, self.token))


def var(*token: Hashable) -> Var:
    """A variable with a token, or a new one."""
    return Var(*token)


def vars(n: int) -> list[Var]:
    """As many new variables."""
    return [Var() for _ in range(n)]


def isvar(value: object) -> bool:
    """Whether a value is a variable, by its class or by `variables`."""
    if isinstance(value, Var):
        return True
    return bool(_declared) and isinstance(value, Hashable) and value in _declared


@contextlib.contextmanager
def variables(*variables: Hashable) -> Iterator[None]:
    """While it is entered, the values are variables too.

    Example::

        with variables("x"):
            unify("x", 1)  # {"x": 1}
    """
    new = set(variables) - _declared
    _declared.update(new)
    try:
        yield
    finally:
        _declared.difference_update(new)
