"""Functions that a graph module calls when its graph is edited, or when it is copied."""

from collections.abc import Callable
from typing import Any

__all__ = ["HOOKS", "hook_methods"]

# The attributes of a graph module that hold them.
HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")

_Method = Callable[[Any, Callable[..., object]], None]


def hook_methods(kind: str, attribute: str) -> tuple[_Method, _Method]:
    """The two methods of a graph module that add and remove a function of one of ``HOOKS``.

    Raises:
        AssertionError: by the first, for something that cannot be called.
    """

    def register(self: Any, f: Callable[..., object]) -> None:
        assert callable(f), f"{kind} must be a callable."
        getattr(self, attribute).append(f)

    def unregister(self: Any, f: Callable[..., object]) -> None:
        getattr(self, attribute).remove(f)

    return register, unregister
