"""Records intermediate results by source place: in eager, while tracing, and of a graph."""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxlib.capture.proxy import Proxy
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import foreign_proxy
from fxlib.ir import span as spans
from fxlib.ir.node import Node
from fxlib.ir.span import Site
from fxlib.transform.interpreter import Interpreter

__all__ = ["Digest", "Event", "Key", "Recorder", "Replay", "digest", "key_of", "same"]

_CACHE = dis.opmap.get("CACHE", -1)
_SAMPLE = 4096
_MOST = 100  # parts of a value

Key = tuple[tuple[str, str, int, int], ...]
"""A site in a form that is equal across executions of a file, outermost call first."""


@dataclass(frozen=True)
class Digest:
    """Enough of a value to compare it; for a large tensor, some of its elements."""

    shape: tuple[int, ...]
    dtype: Any
    sample: torch.Tensor


@dataclass(frozen=True)
class Event:
    """One operation: its place, its result, and the number of nodes at that time."""

    site: Site
    value: Any
    nodes: int = 0


def key_of(site: Site | None) -> Key:
    found = []
    while site is not None:
        code, offset, site = site
        text = _code(code)
        # A specialized instruction, such as a call of a proxy's `__getitem__`, may point into its inline cache.
        while 0 < offset < len(text) and text[offset] == _CACHE:
            offset -= 2
        found.append((code.co_filename, code.co_name, code.co_firstlineno, offset))
    return tuple(reversed(found))


@functools.lru_cache(maxsize=256)
def _code(code: CodeType) -> bytes:
    return code.co_code


def digest(value: Any) -> Any:
    """The digest of a value; None if it is not comparable."""
    parts: list[Any] = []
    for leaf in pytree.tree_leaves(value)[:_MOST]:
        if isinstance(leaf, torch.Tensor):
            parts.append(_of_tensor(leaf))
        elif isinstance(leaf, bool | int | float | str | complex | torch.dtype):
            parts.append(leaf)
    return tuple(parts)


def _of_tensor(tensor: torch.Tensor) -> Digest:
    dense = tensor.detach()
    if dense.layout != torch.strided or dense.is_quantized:
        return Digest(tuple(dense.shape), dense.dtype, torch.empty(0))
    flat = dense.reshape(-1)
    step = -(-flat.numel() // _SAMPLE) or 1
    return Digest(tuple(dense.shape), dense.dtype, flat[::step].clone())


def same(one: Any, other: Any) -> bool:
    """Whether two digests belong to the same value, up to rounding."""
    if len(one) != len(other):
        return False
    return all(_same(a, b) for a, b in zip(one, other, strict=True))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Digest) and isinstance(other, Digest):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        a, b = one.sample, other.sample
        if torch.equal(a, b):
            return True
        if a.is_complex():
            a, b = torch.view_as_real(a), torch.view_as_real(b)
        return torch.allclose(a.double(), b.double(), 1e-4, 1e-6, equal_nan=True)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= 1e-4 * abs(one) or (one != one and other != other)
    return type(one) is type(other) and bool(one == other)


class Recorder(TorchFunctionMode):
    """Records torch functions that run on real values, and calls of ``leaves``, but nothing inside of these."""

    def __init__(
        self,
        leaves: Iterable[nn.Module] = (),
        site: Callable[[FrameType], Site | None] = spans.current_site,
        nodes: Callable[[], int] = int,
        root: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._leaves = tuple(leaves)
        self._site, self._nodes = site, nodes
        self._root = root
        self._states: dict[str, tuple[int, int]] = {}
        self.written: dict[str, Site] = {}
        """Where each buffer of the root was first changed."""
        self._inside = 0
        self._hooks = contextlib.ExitStack()

    def __enter__(self) -> Recorder:
        for module in self._leaves:
            self._hooks.callback(module.register_forward_pre_hook(self._enter).remove)
            self._hooks.callback(module.register_forward_hook(self._leave).remove)
        self._states = self._state()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._hooks.close()
        if self.events:
            self._look(self.events[-1].site)

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._inside += 1

    def _leave(self, module: nn.Module, args: Any, value: Any) -> None:
        self._inside -= 1
        if not self._inside:
            self._note(sys._getframe(1), value)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if not self._inside:
            # Reads of a size or dtype do not count, since a graph need not have them.
            reads = getattr(func, "__name__", "") == "__get__" and not isinstance(value, torch.Tensor)
            if not reads:
                self._note(sys._getframe(1), value)
        return value

    def _note(self, frame: Any, value: Any) -> None:
        if any(isinstance(leaf, Proxy | foreign_proxy) for leaf in pytree.tree_leaves(value)):
            return
        site = self._site(frame)
        if site is not None:
            self._look(site)
            self.events.append(Event(site, digest(value), self._nodes()))

    def _state(self) -> dict[str, tuple[int, int]]:
        buffers = self._root.named_buffers() if self._root is not None else ()
        return {name: (id(each), each._version) for name, each in buffers}

    def _look(self, site: Site) -> None:
        """Check whether the operation at a site wrote to a buffer, or a buffer was replaced since the operation
        before."""
        now = self._state()
        for name, (own, version) in now.items():
            before = self._states.get(name, (own, version))
            if before != (own, version):
                last = self.events[-1].site if self.events and before[0] != own else site
                self.written.setdefault(name, last)
        self._states = now


class Replay(Interpreter):
    """Runs a graph and records the result of each node; called like the module."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.values: list[tuple[Node, Any]] = []
        self.graph_module = module

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        # Taking an item of a tuple is not a torch operation.
        items = n.target is operator.getitem and not isinstance(self.env[n.args[0]], torch.Tensor)
        if not items:
            self.values.append((n, digest(value)))
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.values = []
        bound = inspect.signature(self.graph_module.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return self.run(*bound.args)
