"""Gradual tensor types: shapes with unknown dimensions, as annotations of nodes.

Only the types and their two relations; inference over a graph is left to passes.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["Dyn", "TensorType", "_DynType", "is_consistent", "is_more_precise"]


class TensorType:
    """The type of tensors with the dimensions ``dim``, each a number, a variable, or ``Dyn`` where unknown.

    Example::

        batch_of_images = TensorType((Dyn, 3, 224, 224))
        is_consistent(batch_of_images, TensorType[8, 3, 224, 224])     # True: any batch size will do
        is_more_precise(batch_of_images, TensorType[8, 3, 224, 224])   # False
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and list(self.__args__) == list(other.__args__)

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def __class_getitem__(*args: Any) -> "TensorType":
        # ``TensorType[1, 2]`` comes as one tuple, ``TensorType[1]`` as a number.
        return TensorType(args[0] if isinstance(args[0], tuple) else args)


class _DynType:
    """The type of everything."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __str__(self) -> str:
        return "Dyn"

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether the two could be the type of one value: equal wherever both are known. Symmetric, not transitive."""
    if t1 in (t2, Dyn) or t2 == Dyn:
        return True
    return _every_dimension(is_consistent, t1, t2)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether ``t1`` says all that ``t2`` says: equal wherever ``t2`` is known."""
    if t1 == t2 or t2 == Dyn:
        return True
    return _every_dimension(is_more_precise, t1, t2)


def _every_dimension(relation: Any, t1: Any, t2: Any) -> bool:
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)) or len(t1.__args__) != len(t2.__args__):
        return False
    return all(relation(a, b) for a, b in zip(t1.__args__, t2.__args__, strict=True))
