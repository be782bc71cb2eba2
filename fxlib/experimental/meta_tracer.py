"""Tracing with values that have shapes and types but no data, so that code may ask for shapes and decide by them.

The graph is then right for inputs of these shapes. ``fxlib.diagnosis`` continues on real example values instead, and
reports what it met.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .. import wrapping
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, Target, map_aggregate
from ..proxy import Attribute, Proxy
from ..tracer import Tracer

__all__ = [
    "MetaAttribute",
    "MetaDeviceAttribute",
    "MetaProxy",
    "MetaTracer",
    "embedding_override",
    "functional_relu_override",
    "gen_constructor_wrapper",
    "manual_meta_overrides",
    "nn_layernorm_override",
    "proxys_to_metas",
    "symbolic_trace",
    "torch_abs_override",
    "torch_nn_relu_override",
    "torch_relu_override",
    "torch_where_override",
]


# --- values without data for operations that have none of their own, or a costly one ----------------------------------


def embedding_override(self: torch.nn.Embedding, input: torch.Tensor) -> torch.Tensor:
    weight = self.weight
    return torch.empty(*input.shape, weight.shape[-1], dtype=weight.dtype, device="meta")


def nn_layernorm_override(self: torch.nn.LayerNorm, input: torch.Tensor) -> torch.Tensor:
    return input


def torch_relu_override(x: torch.Tensor) -> torch.Tensor:
    return x


def torch_nn_relu_override(self: torch.nn.ReLU, x: torch.Tensor) -> torch.Tensor:
    return x


def functional_relu_override(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    if inplace:
        raise AssertionError("don't support inplace functional.relu for metatensor analysis")
    return x


def torch_where_override(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    shape = torch.broadcast_shapes(*(getattr(value, "shape", ()) for value in (condition, x, y)))
    return torch.empty(shape, dtype=torch.result_type(x, y), device="meta")


def torch_abs_override(input: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    if out is not None:
        raise AssertionError("Don't support in-place abs for MetaTensor analysis")
    return torch.abs(input)


#: What to run for the value of a function, or a class of modules (with the module first), in place of the thing itself.
manual_meta_overrides: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.nn.Embedding: embedding_override,
    torch.nn.LayerNorm: nn_layernorm_override,
    torch.relu: torch_relu_override,
    torch.nn.functional.relu: functional_relu_override,
    torch.nn.ReLU: torch_nn_relu_override,
    torch.where: torch_where_override,
    torch.abs: torch_abs_override,
}


def gen_constructor_wrapper(target: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``target`` made to record a call that has a proxy among its arguments, and ``target`` itself."""

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        proxy = wrapping.find_proxy(args, kwargs)
        if proxy is None:
            return target(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


# --- proxies ----------------------------------------------------------------------------------------------------------


class MetaProxy(Proxy):
    """A proxy that answers ``shape``, ``size``, ``dim`` and ``dtype`` from a value without data, where it has one."""

    _tensor_meta: Any = None

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Gives the proxy its value."""
        self._tensor_meta = tensor_meta

    def size(self, dim: int | None = None) -> Any:
        known = self._tensor_meta
        if known is not None:
            return known.size() if dim is None else known.size(dim)
        return self.tracer.create_proxy("call_method", "size", (self,) if dim is None else (self, dim), {})

    def dim(self) -> Any:
        known = self._tensor_meta
        return self.tracer.create_proxy("call_method", "dim", (self,), {}) if known is None else known.dim()

    @property
    def shape(self) -> Any:
        return self._ask("shape")

    @property
    def dtype(self) -> Any:
        return self._ask("dtype")

    @property
    def device(self) -> MetaDeviceAttribute:
        # Not from the value: that is on no device at all.
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        return MetaAttribute(self, k)

    def _ask(self, name: str) -> Any:
        if self._tensor_meta is not None:
            return getattr(self._tensor_meta, name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})


class MetaAttribute(Attribute, MetaProxy):
    """An attribute of such a proxy, or the method about to be called."""


class MetaDeviceAttribute(MetaAttribute):
    """The device of such a proxy: recorded, so that the graph runs wherever its inputs are."""


def proxys_to_metas(v: Any) -> Any:
    """The value of a proxy; anything else as it is.

    Raises:
        AssertionError: a proxy of another kind, or one whose value is not known.
    """
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if isinstance(v, Proxy):
        if not isinstance(v, MetaProxy):
            raise AssertionError(f"Expected MetaProxy but got {type(v)}")
        if v._tensor_meta is None:
            raise AssertionError("MetaProxy does not have an associated meta")
        return v._tensor_meta
    return v


# --- the tracer -------------------------------------------------------------------------------------------------------


class MetaTracer(Tracer):
    """Computes a value without data for each node from those of its arguments.

    Where that fails, it warns, and the node's shape is recorded like anything else. Functions that make tensors record
    calls with proxies. A module without parameters that ``forward`` makes becomes a submodule of the root.
    """

    allow_insert_stateless_mods: bool = True

    _TORCH_METHODS_TO_PATCH = ("arange", "zeros", "ones", "full_like", "eye")

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if not isinstance(proxy, MetaProxy):
            return proxy
        if kind == "placeholder":
            if target in self.meta_args:
                proxy.install_tensor_meta(self.meta_args[str(target)])
        elif kind != "output":
            try:
                proxy.install_tensor_meta(self._value_of(kind, target, args, kwargs))
            except Exception as error:
                warnings.warn(f"Could not compute metadata for {kind} target {target}: {error}")
        return proxy

    def _value_of(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = (map_aggregate(map_aggregate(a, proxys_to_metas), _without_data) for a in (args, kwargs))
        with wrapping.patches_reverted(), torch.no_grad():
            if kind == "call_function":
                if target in self.orig_fns:
                    kwargs = {**kwargs, "device": "meta"}
                return manual_meta_overrides.get(target, target)(*args, **kwargs)
            if kind == "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            if kind == "get_attr":
                value: Any = self.root
                for part in target.split("."):
                    value = getattr(value, part)
                if not isinstance(value, torch.Tensor):
                    raise AssertionError(f"Expected Tensor, got {type(value)}")
                return _without_data(value)
            module = self.root.get_submodule(target)
            override = manual_meta_overrides.get(type(module))
            if override is not None:
                return override(module, *args, **kwargs)
            owned = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            state = {path: _without_data(value) for path, value in owned.items()}
            return torch.func.functional_call(module, state, args, kwargs)

    def proxy(self, node: Node) -> MetaProxy:
        return MetaProxy(node, self)

    def path_of_module(self, mod: torch.nn.Module) -> str:
        try:
            return super().path_of_module(mod)
        except NameError:
            if not self.allow_insert_stateless_mods or any(True for _ in mod.parameters()) or any(mod.buffers()):
                raise
            return self._insert_module_as_submodule(mod)

    def _insert_module_as_submodule(self, mod: torch.nn.Module) -> str:
        """Adds a module that nobody owns to the root; returns its path."""
        base, number = type(mod).__name__.lower(), 0
        while hasattr(self.root, f"{base}_{number}"):
            number += 1
        path = f"{base}_{number}"
        self.root.add_module(path, mod)
        if self.submodule_paths is not None:
            self.submodule_paths[mod] = path
        return path

    def trace(  # type: ignore[override]
        self,
        root: torch.nn.Module | Callable[..., Any],
        meta_args: dict[str, torch.Tensor],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """As ``Tracer.trace``, with tensors on the device "meta" by the names of inputs; other inputs have no shape."""
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args = meta_args
        self.patched_torch_methods = {
            name: gen_constructor_wrapper(getattr(torch, name)) for name in self._TORCH_METHODS_TO_PATCH
        }
        self.orig_fns = {original for _, original in self.patched_torch_methods.values()}
        graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph

    def _patch(self, patcher: wrapping.Patcher, globals_of_root: dict[str, Any]) -> None:
        super()._patch(patcher, globals_of_root)
        for name, (wrapper, _) in self.patched_torch_methods.items():
            patcher.patch(vars(torch), name, wrapper)


def _without_data(value: Any) -> Any:
    return value.to(device="meta") if isinstance(value, torch.Tensor) else value


def symbolic_trace(
    root: torch.nn.Module | Callable[..., Any],
    meta_args: dict[str, torch.Tensor] | None = None,
    concrete_args: dict[str, Any] | None = None,
) -> GraphModule:
    """A GraphModule of ``root`` for inputs of the shapes and types of ``meta_args``.

    Example::

        def last(x):
            return x[x.shape[0] - 1] if x.dim() > 1 else x

        gm = symbolic_trace(last, {"x": torch.empty(4, 8, device="meta")})
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, {} if meta_args is None else meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, torch.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
