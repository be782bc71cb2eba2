"""Proxies that know part of their value: a parameter's shape, or an example.

`Tracer` creates the former if ``param_shapes_constant`` is set; programs create the latter themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.capture.tracer_base import TracerBase

__all__ = ["MetaProxy", "ParameterProxy"]


class ParameterProxy(Proxy):
    """The proxy of a parameter; ``shape``, ``size`` and the like return the parameter's own.

    `Tracer` uses it when ``param_shapes_constant`` is set.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        if not isinstance(param, torch.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.name, self.param = name, param
        super().__init__(node, tracer)

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    shape = property(attrgetter("param.shape"))
    ndim = property(attrgetter("param.ndim"))

    def size(self) -> torch.Size:
        return self.param.size()

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    nelement = numel


class MetaProxy(Proxy):
    """A proxy that also runs each torch function on ``node.meta["val"]``, under ``fake_mode``, and keeps the result."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> MetaProxy:
        mode = _fake_mode(args or ())
        recorded = super().__torch_function__(orig_method, types, args, kwargs)
        result = MetaProxy(recorded.node, recorded.tracer, mode)
        with mode:
            result.node.meta["val"] = orig_method(*map(_value, args or ()), **(kwargs or {}))
        return result


def _fake_mode(args: tuple[Any, ...]) -> Any:
    """The mode of the first MetaProxy among the arguments.

    Raises:
        AssertionError: there is none.
    """
    for arg in args:
        if isinstance(arg, MetaProxy):
            return arg.fake_mode
    raise AssertionError("No MetaProxy found in arguments, but one is expected.")


def _value(arg: Any) -> Any:
    return arg.node.meta["val"] if isinstance(arg, Proxy) else arg


# The public module path of these names, which error texts show.
for _cls in (ParameterProxy, MetaProxy):
    _cls.__module__ = "fxlib.proxy"
