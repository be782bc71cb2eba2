"""What a node knows besides its computation: ``meta``, and its place in the source."""

import copy
from typing import Any

from fxlib.ir.span import Site, Span, resolve
from fxlib.ir.span import call_path as path_of_site

__all__ = ["Recorded"]


class Recorded:
    """The part of a node that holds where it was recorded, and facts that passes have found."""

    __slots__ = ("_meta", "_module_stack", "_site")

    _meta: dict[str, Any] | None
    # The enclosing modules as a dictionary or, for a leaf, as (dictionary of the caller, key, entry).
    _module_stack: dict[str, Any] | tuple[dict[str, Any], str, object] | None
    _site: Site | None

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the node, by name. Created on first access, since most nodes never need it."""
        if self._meta is None:
            stack = self._module_stack
            self._meta = {} if stack is None else {"nn_module_stack": _copied_stack(stack)}
        return self._meta

    @meta.setter
    def meta(self, value: dict[str, Any]) -> None:
        self._meta = value

    def _copy_origin(self, other: Any) -> None:
        """Take over the ``meta`` of another node, one level deep, and its place in the source."""
        if isinstance(other, Recorded):
            self._site, self._module_stack = other._site, other._module_stack
            found = other._meta
        else:
            found = other.meta
        if found is not None:
            self._meta = copy.copy(found)

    def _give_meta(self, taker: Any) -> None:
        if taker.meta:
            raise AssertionError(
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                "but replace_with already has .meta keys"
            )
        taker.meta.update(self.meta)

    @property
    def stack_trace(self) -> str | None:
        """Where the operation was recorded, as text, if the tracer kept it in ``meta``."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @property
    def span(self) -> Span | None:
        """The source range of the operation in the user's code, if it is known."""
        return resolve(self._site)

    @property
    def call_path(self) -> tuple[Span, ...]:
        """The source ranges from the traced function's frame down to ``span``."""
        return path_of_site(self._site)


def _copied_stack(stack: dict[str, Any] | tuple[dict[str, Any], str, object]) -> dict[str, Any]:
    if not isinstance(stack, tuple):
        return copy.copy(stack)
    of_caller, key, entry = stack
    copied = copy.copy(of_caller)
    copied[key] = entry
    return copied
