"""The tracers of a diagnosis: one that continues where torch.fx fails, and one that fails as torch.fx does."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.ir.node import Node

__all__ = ["Answers", "ContinuingTracer", "NotingTracer", "Returned", "StrictTracer"]


_MOST_CONTAINERS = 100
_FUNCTION = os.path.join("torch", "autograd", "function.py")


def _modes() -> tuple[bool, bool, bool]:
    """The current grad mode and autocast state, which a graph does not record."""
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")


def _lost_mode() -> str:
    """The rule for an operation in another grad mode; forward of an autograd.Function also runs without gradients."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "apply" and frame.f_code.co_filename.endswith(_FUNCTION):
            return "FX221"
        frame = frame.f_back  # type: ignore[assignment]
    return "FX212"


def nodes_of(value: Any, known: dict[int, Any] | None = None) -> Any:
    """The nodes in a value, nested in lists and dicts as there; None for anything outside of the graph, for what refers
    back to what it is in, and in more containers than anybody reads."""
    if isinstance(value, Proxy):
        return value.node
    if not isinstance(value, (list, tuple, dict)):
        return None
    known = {} if known is None else known
    if id(value) in known or len(known) >= _MOST_CONTAINERS:
        return known.get(id(value))
    known[id(value)] = None
    if isinstance(value, dict):
        found: Any = {str(key): nodes_of(each, known) for key, each in value.items()}
    else:
        found = [nodes_of(each, known) for each in value]
    known[id(value)] = found
    return found


def _altered(value: Any, depth: int = 4) -> type | None:
    """The first class of a container that a graph does not keep: it has plain lists, dictionaries and tuples, and named
    tuples."""
    if not isinstance(value, (list, tuple, dict)) or not depth:
        return None
    if type(value) not in (list, tuple, dict) and not hasattr(value, "_fields"):
        return type(value)
    items = value.values() if isinstance(value, dict) else value
    return next((kind for each in items if (kind := _altered(each, depth - 1)) is not None), None)


class Returned(NamedTuple):
    """The result of a call of a submodule or function at ``site`` (see `nodes_of`), and the last node recorded by
    then."""

    last: Node
    site: Any
    nodes: Any


class Answers(Protocol):
    """The interface for answers that torch.fx does not give."""

    def truth(self, proxy: Proxy) -> bool: ...

    def items(self, proxy: Proxy) -> Iterator[Any]: ...

    def keys(self, proxy: Proxy) -> list[Any] | None:
        """None for the default of a tracer."""

    def length(self, proxy: Proxy) -> int | None:
        """As `keys`."""

    def stranger(self, module: nn.Module) -> bool:
        """Whether to trace into a module that is not in the root."""


class StrictTracer(Tracer):
    """A `Tracer` with further leaf modules: paths in the root, class names, or dotted ends of qualified class names.

    ``like`` makes the project's own tracer, of fxlib or torch.fx: its leaves and wrapped functions, and whether it
    records reads of buffers, apply here, too.
    """

    def __init__(self, leaves: frozenset[str] = frozenset(), like: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.leaves = leaves
        self._like = None if like is None else like()
        for name in ("_autowrap_search", "_autowrap_function_ids", "proxy_buffer_attributes"):
            setattr(self, name, getattr(self._like, name, getattr(self, name)))

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if self.leaves:
            name = f".{type(m).__module__}.{type(m).__qualname__}"
            if module_qualified_name in self.leaves or any(name.endswith("." + leaf) for leaf in self.leaves):
                return True
        if self._like is not None:
            with contextlib.suppress(Exception):  # its own trace will report it
                return bool(self._like.is_leaf_module(m, module_qualified_name))
        return super().is_leaf_module(m, module_qualified_name)


class ContinuingTracer(StrictTracer):
    """Continues where torch.fx raises, with values from its ``answers``."""

    answers: Answers

    def __init__(self, leaves: frozenset[str] = frozenset(), like: Callable[[], Any] | None = None) -> None:
        super().__init__(leaves, like)
        self.elsewhere: dict[Any, str] = {}
        """Sites of the first operations that other threads recorded, and the names of these threads."""
        self.strangers: dict[str, nn.Module] = {}
        """Modules outside of the root whose forward was traced nevertheless, by their made-up name."""
        self.refused: nn.Module | None = None
        """The module that was called last although it has no path, and was not traced into."""
        self.hooked: dict[nn.Module, Any] = {}
        """The modules with backward hooks that were traced into, and the sites of these calls."""
        self.modes: dict[Any, str] = {}
        """Sites of operations in a mode other than the trace's initial one, and the rule."""
        self.changes_modes = False
        """Whether a user's function may change the mode; it is then checked at each operation."""
        self.returned: list[Returned] = []
        """Results of calls of submodules and functions."""
        self.altered: dict[Node, type] = {}
        """Calls of wrapped functions that get a plain container in the graph, and its class in a normal run."""
        self._modes = _modes()
        self._paths_of_strangers: dict[nn.Module, str] = {}
        self._thread = threading.get_ident()

    def _take_site(self, frame: Any = None) -> Any:
        site = super()._take_site(frame)
        if site is not None:
            if threading.get_ident() != self._thread:
                self.elsewhere.setdefault(site, threading.current_thread().name)
            elif (now := _modes()) != self._modes:
                self.modes.setdefault(site, _lost_mode() if now[0] != self._modes[0] else "FX213")
                self._site_frame = None
            elif self.changes_modes:
                self._site_frame = None
        return site

    def _call_inside(self, site: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = super()._call_inside(site, function, args, kwargs)
        if args[0]._backward_hooks or args[0]._backward_pre_hooks:
            self.hooked.setdefault(args[0], site)
        last = self.graph._root._prev  # placeholders come first, so there is one
        if site is not None:
            self.returned.append(Returned(last, site, nodes_of(result)))
        return result

    def gives(self, value: Any) -> None:
        """A function of the user's is about to return this."""
        site = super()._take_site(sys._getframe(1))
        if site is not None and site[2] is not None:
            self.returned.append(Returned(self.graph._root._prev, site[2], nodes_of(value)))

    def _wrapped(self, node: Node, args: tuple[Any, ...], kwargs: Any) -> None:
        if isinstance(node.target, FunctionType) and (kind := _altered((args, dict(kwargs)))) is not None:
            self.altered[node] = kind

    def to_bool(self, obj: Proxy) -> bool:
        return self.answers.truth(obj)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        return self.answers.items(obj)

    def keys(self, obj: Proxy) -> Any:
        known = self.answers.keys(obj)
        return super().keys(obj) if known is None else known

    def _length(self, obj: Proxy) -> int:
        known = self.answers.length(obj)
        return super()._length(obj) if known is None else known

    def holder(self, target: str) -> tuple[nn.Module, str]:
        """The module that a ``call_module`` or ``get_attr`` target is looked up in, and the rest of the target."""
        first, _, rest = target.partition(".")
        stranger = self.strangers.get(first)
        return (self.root, target) if stranger is None else (stranger, rest)

    def _path_of_stranger(self, mod: nn.Module) -> str:
        known = self._paths_of_strangers.get(mod)
        if known is not None:
            return known
        # A leaf's call is cut and evaluated; nothing inside it can be found.
        if self.is_leaf_module(mod, "") or not self.answers.stranger(mod):
            self.refused = mod
            return super()._path_of_stranger(mod)
        name = f"unregistered_{len(self.strangers)}"
        self.strangers[name] = mod
        for path, module in mod.named_modules():
            self._paths_of_strangers.setdefault(module, f"{name}.{path}" if path else name)
        return name

    def _owned_name(self, kind: str, value: Any) -> str | None:
        name = super()._owned_name(kind, value)
        if name is not None or not self.strangers:
            return name
        for module, path in self._paths_of_strangers.items():
            for key, own in module.__dict__[kind].items():
                if own is value and value is not None:
                    return f"{path}.{key}"
        return None


class NotingTracer(ContinuingTracer):
    """Records the mode in which each layer is called. This requires `call_module`, which is a third slower."""

    called: dict[Node, bool]
    """The nodes that call layers, and whether the layer was in training mode."""

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        result = super().call_module(m, forward, args, kwargs)
        if isinstance(result, Proxy) and result.node.op == "call_module":
            # A traced-into module may return the result of a layer that is already recorded.
            self.called.setdefault(result.node, m.training)
        return result
