"""Questions to objects of which anything may be true: whatever their own code raises is no answer.

``getattr`` and ``hasattr`` take an AttributeError for "no" and pass on everything else, ``isinstance`` asks the object
for its ``__class__``, and ``==``, ``bool`` and ``len`` run its methods. A dictionary whose ``__getattr__`` is its
``__getitem__`` raises KeyError, and a proxy without a target raises RuntimeError.
"""

from collections.abc import Iterator
from typing import Any, TypeGuard, TypeVar

__all__ = ["attribute", "attributes_of", "has_attribute", "home_of", "is_a", "items_of"]

T = TypeVar("T")
_NONE = object()


def attribute(value: object, name: str, default: Any = None) -> Any:
    """An attribute, or the default where reading it raises anything."""
    try:
        return getattr(value, name)
    except Exception:
        return default


def has_attribute(value: object, name: str) -> bool:
    return attribute(value, name, _NONE) is not _NONE


def attributes_of(value: object) -> dict[str, Any] | None:
    """The dictionary of its attributes, if it has one."""
    found = attribute(value, "__dict__")
    return found if type(found) is dict else None


def is_a(value: object, kinds: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    """Whether the object is of such a type; what it says of its class does not count."""
    return issubclass(type(value), kinds)


def items_of(container: Any) -> Iterator[tuple[Any, Any]]:
    """The keys and values of a dictionary, or the numbers and items of a list or tuple, whatever its class makes of
    iteration."""
    if is_a(container, dict):
        return iter(dict.items(container))
    return enumerate((list if is_a(container, list) else tuple).__iter__(container))


def home_of(value: object) -> str:
    """The module that the object or its class says it is from."""
    found = attribute(value, "__module__") or attribute(type(value), "__module__")
    return found if type(found) is str else ""
