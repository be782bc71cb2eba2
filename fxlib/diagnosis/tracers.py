"""The tracers of a diagnosis: one that goes on past a question, one that fails as torch.fx does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from fxlib.proxy import Proxy
from fxlib.tracer import Tracer

if TYPE_CHECKING:
    from fxlib.diagnosis.questions import Questions

__all__ = ["ContinuingTracer", "StrictTracer"]


class StrictTracer(Tracer):
    """A `Tracer` with further leaf modules: paths in the root, class names, or dotted ends of qualified class names."""

    def __init__(self, leaves: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.leaves = leaves

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if self.leaves:
            name = f".{type(m).__module__}.{type(m).__qualname__}"
            if module_qualified_name in self.leaves or any(name.endswith("." + leaf) for leaf in self.leaves):
                return True
        return super().is_leaf_module(m, module_qualified_name)


class ContinuingTracer(StrictTracer):
    """Puts the questions that torch.fx refuses to its ``questions``."""

    questions: Questions

    def __init__(self, leaves: frozenset[str] = frozenset()) -> None:
        super().__init__(leaves)
        self.elsewhere: dict[Any, str] = {}
        """Sites of the first operations that other threads recorded, and the names of these threads."""
        self._thread = threading.get_ident()

    def _take_site(self, frame: Any = None) -> Any:
        site = super()._take_site(frame)
        if site is not None and threading.get_ident() != self._thread:
            self.elsewhere.setdefault(site, threading.current_thread().name)
        return site

    def to_bool(self, obj: Proxy) -> bool:
        return self.questions.truth(obj)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        return self.questions.items(obj)

    def keys(self, obj: Proxy) -> Any:
        return self.questions.keys(obj)
