"""Restoring the attributes of the modules under a root after their code ran on proxies.

A forward that keeps a value on its module, in an attribute or in a dict that serves as a cache, would keep a proxy of
the trace there, and every later call and every later trace would read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

import torch

from fxlib.capture.proxies_with_values import ParameterProxy
from fxlib.capture.proxy import Attribute, Proxy
from fxlib.capture.tracer_base import TraceError
from fxlib.interop.torch_side import foreign_proxy
from fxlib.ir.graph import Graph

__all__ = ["check_own", "unchanged"]

_CONTAINERS = (dict, list, set)
_PROXIES = frozenset((Proxy, Attribute, ParameterProxy, foreign_proxy))
_OF_A_TRACE = re.compile(r"_\w*(constant|obj)_?\d+")
"""Names under which a trace keeps constants on its root."""


@contextmanager
def unchanged(root: Any) -> Iterator[list[str]]:
    """Restore the attributes of all modules under ``root`` on leaving, in containers too. Yields the attributes that
    already held proxies, left by a trace that restores nothing.


    Constants that a trace adds to its root stay, since the graph refers to them. In-place writes to data are not
    undone.
    """
    held = [_content(module) for module in _modules(root)]
    kept: list[str] = []
    if any(before and not _PROXIES.isdisjoint(map(type, _values(before))) for content in held for _, before in content):
        kept = [each for path, module in root.named_modules() for each in _proxies(path, _content(module))]
    try:
        yield kept
    except NotImplementedError as error:  # raised for a proxy of torch.fx
        if kept:
            raise _from_before(kept) from error
        raise
    finally:
        for each in held:
            for container, before in each:
                if not _same(container, before):
                    _refill(container, before)


def check_own(graph: Graph, kept: list[str]) -> None:
    """
    Args:
        graph: as traced.
        kept: the value that `unchanged` yielded.

    Raises:
        TraceError: the program read a proxy of an earlier trace, which is a node of another graph.
    """
    if kept and any(source.graph is not graph for node in graph.nodes for source in node.all_input_nodes):
        raise _from_before(kept)


def _from_before(kept: list[str]) -> TraceError:
    shown = ", ".join(kept[:3]) + (f" and {len(kept) - 3} more" if len(kept) > 3 else "")
    return TraceError(
        f"an earlier trace left proxies in {shown}, and forward reads them. Remove them or construct the model again; "
        "fxlib.symbolic_trace itself leaves none behind."
    )


def _proxies(path: str, content: list[tuple[Any, Any]]) -> Iterator[str]:
    """The attributes of a module that hold proxies, alone or in a container."""
    if not content:
        return
    (own, _), *containers = content
    within = {id(container) for container, before in containers if not _PROXIES.isdisjoint(map(type, _values(before)))}
    for name, value in own.items():
        if type(value) in _PROXIES or id(value) in within:
            yield f"`{path}.{name}`" if path else f"`{name}`"


def _values(container: Any) -> Any:
    return container.values() if isinstance(container, dict) else container


def _modules(root: Any) -> Iterable[torch.nn.Module]:
    """The modules under ``root``."""
    if not isinstance(root, torch.nn.Module):
        return ()
    reached = {root: None}
    stack = [root]
    while stack:
        for child in stack.pop()._modules.values():
            if child is not None and child not in reached:
                reached[child] = None
                if child._modules:
                    stack.append(child)
    return reached


def _content(module: torch.nn.Module) -> list[tuple[Any, Any]]:
    """The containers of a module, its ``__dict__`` first, each with a copy."""
    own = module.__dict__
    if type(module).__module__.startswith("torch.nn."):
        # It holds nothing itself; others set its buffers.
        buffers = own["_buffers"]
        return [(buffers, buffers.copy())] if buffers else []
    return [(own, own.copy()), *((value, value.copy()) for value in own.values() if type(value) in _CONTAINERS)]


def _same(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, set):
        return bool(container == before)
    if isinstance(container, dict):
        return all(map(is_, container, before)) and all(map(is_, container.values(), before.values()))
    return all(map(is_, container, before))


def _refill(container: Any, before: Any) -> None:
    """Restore the content of a container, but keep constants of a trace."""
    added = container.items() if isinstance(container, dict) else ()
    kept = {key: value for key, value in added if key not in before and _OF_A_TRACE.fullmatch(str(key))}
    container.clear()
    if isinstance(container, list):
        container.extend(before)
    else:
        container.update(before)
    if kept:
        container.update(kept)
