"""GraphModules that compile late. Here every GraphModule does, so these names stand for what there is anyway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .graph_module import GraphModule

#: A GraphModule whose forward is compiled at the first call, which is how every GraphModule does it.
_LazyGraphModule = GraphModule


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Without effect: there is one kind of GraphModule."""
    yield


@contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    """Without effect: there is one kind of GraphModule."""
    yield


def _get_graph_module_cls() -> type[GraphModule]:
    return GraphModule


def _make_graph_module(
    *args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any
) -> GraphModule:
    """``graph_module_cls(*args, **kwargs)``, by default a GraphModule."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)
