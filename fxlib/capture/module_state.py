"""What the modules under a root hold, put back after their code ran on values that are not the program's.

A forward that keeps a value on its module, in an attribute or in a dict that serves as a cache, would keep a proxy of
the trace there, and every later call and every later trace would read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["unchanged"]

_CONTAINERS = (dict, list, set)
_OF_A_TRACE = re.compile(r"_\w*(constant|obj)_?\d+")
"""Names under which a trace keeps constants on its root."""


@contextmanager
def unchanged(root: Any) -> Iterator[None]:
    """On leaving, the attributes of every module under ``root`` are what they were, in containers too.

    Modules of torch.nn are passed over: they keep nothing. Constants that a trace adds to its root stay, since the
    graph refers to them. Data that is written in place is not put back.
    """
    held = [_content(module) for module in root.modules()] if isinstance(root, torch.nn.Module) else []
    try:
        yield
    finally:
        for each in held:
            for container, before in each:
                if not _same(container, before):
                    _refill(container, before)


def _content(module: torch.nn.Module) -> list[tuple[Any, Any]]:
    """The containers of a module, its own ``__dict__`` first, each with a copy."""
    own = module.__dict__
    if type(module).__module__.startswith("torch.nn."):
        return []
    return [(own, own.copy()), *((value, value.copy()) for value in own.values() if type(value) in _CONTAINERS)]


def _same(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(name in container and container[name] is value for name, value in before.items())
    if isinstance(container, set):
        return bool(container == before)
    return all(a is b for a, b in zip(container, before, strict=True))


def _refill(container: Any, before: Any) -> None:
    """Give a container the content it had; constants of a trace stay."""
    added = container.items() if isinstance(container, dict) else ()
    kept = {key: value for key, value in added if key not in before and _OF_A_TRACE.fullmatch(str(key))}
    container.clear()
    if isinstance(container, list):
        container.extend(before)
    else:
        container.update(before)
    if kept:
        container.update(kept)
