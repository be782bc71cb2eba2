"""GraphModules that say whether their ``forward`` has been compiled.

Every GraphModule compiles it at the first use. In torch.fx only these do, so that code which asks them about it, or
makes them compile, works here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._source import _DeferredForward
from .graph_module import GraphModule

_use_lazy_graph_module_flag = False
_force_skip_lazy_graph_module_flag = False


class _LazyGraphModule(GraphModule):
    """A GraphModule that can be asked whether it has been compiled."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """``gm`` if it is of this kind, else one with its graph and attributes."""
        return gm if isinstance(gm, _LazyGraphModule) else cls(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: GraphModule) -> None:
        """Compile ``gm`` now; without effect on modules of another kind."""
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def real_recompile(self) -> None:
        """Compile ``forward`` now, if that has not been done."""
        type(self).forward  # noqa: B018  compiled by being asked for

    def _needs_recompile(self) -> bool:
        return isinstance(vars(type(self)).get("forward"), _DeferredForward)

    @property
    def code(self) -> str:
        """The source of ``forward``, which is compiled by asking for it."""
        self.real_recompile()
        return super().code


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Whether tracing makes modules of this kind, within the block."""
    global _use_lazy_graph_module_flag
    before = _use_lazy_graph_module_flag
    _use_lazy_graph_module_flag = should_use and not _force_skip_lazy_graph_module_flag
    try:
        yield
    finally:
        _use_lazy_graph_module_flag = before


@contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    """``_use_lazy_graph_module`` has no effect within the block."""
    global _force_skip_lazy_graph_module_flag
    before = _force_skip_lazy_graph_module_flag
    _force_skip_lazy_graph_module_flag = True
    try:
        yield
    finally:
        _force_skip_lazy_graph_module_flag = before


def _get_graph_module_cls() -> type[GraphModule]:
    return _LazyGraphModule if _use_lazy_graph_module_flag else GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    """``graph_module_cls(*args, **kwargs)``, by default of the class that tracing makes now."""
    return (graph_module_cls or _get_graph_module_cls())(*args, **kwargs)
