"""Tracing with values that have shapes and types but no data, so that code may ask for shapes and decide by them.

The graph is then right for inputs of these shapes. ``fxlib.diagnosis`` continues on real example values instead, and
reports what it met.

What a node yields is what the rules of ``fxlib.shapes`` say, unless ``manual_meta_overrides`` has a function for it.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Attribute, Proxy
from ..shapes import TensorMeta, infer, map_values
from ..tracer import Tracer
from ..wrapping import Patcher, find_proxy, patches_reverted

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
    graph = tracer.trace(root, meta_args or {}, concrete_args)
    named = type(root) if isinstance(root, torch.nn.Module) else root
    gm = GraphModule(tracer.root, graph, named.__name__)
    # The result has the modules that ``forward`` made; the root is left without.
    for name in tracer._inserted:
        delattr(tracer.root, name)
    return gm


class MetaTracer(Tracer):
    """Computes a value without data for each node from those of its arguments.

    Where that fails, it warns, and the node's shape is recorded like anything else. Functions that make tensors record
    calls with proxies. A module without parameters that ``forward`` makes becomes a submodule of the root.

    Attributes:
        allow_insert_stateless_mods: whether the last is so; else such a module is refused.
        meta_args: the tensors that the trace was given.
    """

    allow_insert_stateless_mods: bool = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.meta_args: dict[str, Any] = {}
        # What each node yields; None stands for what could not be computed.
        self._known: dict[Node, Any] = {}
        self._inserted: list[str] = []

    def trace(  # type: ignore[override]
        self,
        root: torch.nn.Module | Callable[..., Any],
        meta_args: dict[str, torch.Tensor],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """As ``Tracer.trace``, with tensors on the device "meta" by the names of inputs; other inputs have no shape."""
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args, self._known, self._inserted = meta_args, {}, []
        graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}  # for tracing the code again, where a GraphModule is unpickled
        inputs = {str(node.target) for node in graph.find_nodes(op="placeholder")}
        if strange := sorted(meta_args.keys() - inputs):
            warnings.warn(f"meta_args are for inputs; {', '.join(strange)} is none of {', '.join(sorted(inputs))}")
        return graph

    def proxy(self, node: Node) -> MetaProxy:
        """A proxy that knows what ``node`` yields, as far as that can be computed."""
        try:
            self._yields(node)
        except Exception as error:
            warnings.warn(f"Could not compute metadata for {node.op} target {node.target}: {error}")
        return MetaProxy(node, self)

    def _yields(self, node: Node) -> Any:
        """What a node yields, or None where that is not known. Constants are nodes that no proxy was made for."""
        if node not in self._known:
            self._known[node] = None
            if node.op == "placeholder":
                value = _without_data(self.meta_args.get(str(node.target)))
            else:
                inputs = {source: self._yields(source) for source in node.all_input_nodes}
                if any(value is None for value in inputs.values()):
                    return None
                value = self._compute(node, *map_arg((node.args, node.kwargs), inputs.__getitem__))
            self._known[node] = value
            if node.op == "call_method" and node.target in _RESHAPE_IN_PLACE:
                self._known[node.args[0]] = value  # type: ignore[index]
        return self._known[node]

    def _compute(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        owner: tuple[Any, ...] = ()
        key: Any = node.target
        if node.op == "call_module":
            owner = (self.root.get_submodule(str(node.target)),)
            key = type(owner[0])
        override = manual_meta_overrides.get(key) if node.op in ("call_module", "call_function") else None
        with patches_reverted():
            if override is not None:
                return override(*owner, *args, **kwargs)
            return _without_data(infer(node.op, node.target, args, kwargs, self.root))

    def _patch(self, patcher: Patcher, globals_of_root: dict[str, Any]) -> None:
        super()._patch(patcher, globals_of_root)
        for namespace in (vars(torch), globals_of_root):
            for name, value in list(namespace.items()):
                if (recording := _FACTORIES.get(id(value))) is not None:
                    patcher.patch(namespace, name, recording)

    def _path_of_stranger(self, mod: torch.nn.Module) -> str:
        if not self.allow_insert_stateless_mods or [*mod.parameters(), *mod.buffers()]:
            return super()._path_of_stranger(mod)
        kind = type(mod).__name__.lower()
        name = next(name for name in (f"{kind}_{i}" for i in itertools.count()) if not hasattr(self.root, name))
        self.root.add_module(name, mod)
        self._inserted.append(name)
        if self.submodule_paths:
            self.submodule_paths.update((inner, path) for path, inner in mod.named_modules(prefix=name))
        return name


# Methods after which the tensor itself has another shape.
_RESHAPE_IN_PLACE = frozenset(
    ("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "resize_", "resize_as_", "as_strided_")
)


class MetaProxy(Proxy):
    """A proxy that answers ``shape``, ``size``, ``dim`` and ``dtype`` from a value without data, where it has one."""

    _installed: Any = None

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Gives the proxy its value."""
        if isinstance(self.tracer, MetaTracer):
            self.tracer._known[self.node] = tensor_meta
        else:
            self._installed = tensor_meta

    def _value(self) -> Any:
        return self.tracer._known.get(self.node) if isinstance(self.tracer, MetaTracer) else self._installed

    def size(self, dim: int | None = None) -> Any:
        place = () if dim is None else (dim,)
        value = self._value()
        if isinstance(value, torch.Tensor):
            return value.size(*place)
        return self.tracer._emit("call_method", "size", (self, *place), {})

    def dim(self) -> Any:
        value = self._value()
        return value.dim() if isinstance(value, torch.Tensor) else self.tracer._emit("call_method", "dim", (self,), {})

    @property
    def shape(self) -> Any:
        value = self._value()
        return value.shape if isinstance(value, torch.Tensor) else MetaAttribute(self, "shape")

    @property
    def dtype(self) -> Any:
        value = self._value()
        return value.dtype if isinstance(value, torch.Tensor) else MetaAttribute(self, "dtype")

    @property
    def device(self) -> MetaDeviceAttribute:
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        # An attribute of the proxy itself that is not there yet, as while it is copied, is no attribute of the value.
        return super().__getattr__(k) if k.startswith("__") else MetaAttribute(self, k)


class MetaAttribute(Attribute, MetaProxy):
    """An attribute of such a proxy, or the method about to be called."""

    def _value(self) -> Any:
        if self._node is not None:
            return super()._value()
        owner = self.root._value() if isinstance(self.root, MetaProxy) else None
        try:
            return None if owner is None else _without_data(infer("call_function", getattr, (owner, self.attr)))
        except Exception:  # the call that needs the value will tell
            return None


class MetaDeviceAttribute(MetaAttribute):
    """The device of such a proxy: recorded, so that the graph runs wherever its inputs are."""

    def _value(self) -> Any:
        return torch.device("meta")


def proxys_to_metas(v: Any) -> Any:
    """The value of a proxy; anything else as it is.

    Raises:
        AssertionError: a proxy of another kind, or one whose value is not known.
    """
    if not isinstance(v, Proxy):
        return v
    if not isinstance(v, MetaProxy):
        raise AssertionError(f"Expected MetaProxy but got {type(v)}")
    value = v._value()
    if value is None:
        raise AssertionError("MetaProxy does not have an associated meta")
    return value


def gen_constructor_wrapper(target: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``target`` made to record a call that has a proxy among its arguments, and ``target`` itself."""

    @functools.wraps(target)
    def recording(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        return target(*args, **kwargs) if proxy is None else proxy.tracer._emit("call_function", target, args, kwargs)

    return recording, target


# id of a function that makes tensors -> what takes its place. Where torch does not see the proxy among the arguments,
# as in ``torch.rand(n, 4)``, it would refuse the call rather than have it recorded.
_FACTORIES = {
    id(factory): gen_constructor_wrapper(factory)[0]
    for factory in (
        *(torch.arange, torch.linspace, torch.logspace, torch.eye, torch.full, torch.full_like),
        *(torch.tensor, torch.as_tensor, torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn),
        *(torch.randint, torch.randperm, torch.tril_indices, torch.triu_indices),
    )
}


def _without_data(value: Any) -> Any:
    def emptied(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            part = TensorMeta.of(part)
        return part.empty() if isinstance(part, TensorMeta) else part

    return map_values(value, emptied)


# --- what some calls yield, for those who build on these functions ----------------------------------------------------


def _of_call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _without_data(infer("call_function", target, args, kwargs))


def _of_layer(layer: torch.nn.Module, *args: Any) -> Any:
    return _without_data(infer("call_module", "", args, root=layer))


def torch_where_override(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _of_call(torch.where, condition, x, y)


def torch_abs_override(input: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    return _of_call(torch.abs, input) if out is None else out


def torch_relu_override(x: torch.Tensor) -> torch.Tensor:
    return _of_call(torch.relu, x)


def functional_relu_override(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    return x if inplace else _of_call(F.relu, x)


def torch_nn_relu_override(self: torch.nn.ReLU, x: torch.Tensor) -> torch.Tensor:
    return _of_layer(self, x)


def nn_layernorm_override(self: torch.nn.LayerNorm, input: torch.Tensor) -> torch.Tensor:
    return _of_layer(self, input)


def embedding_override(self: torch.nn.Embedding, input: torch.Tensor) -> torch.Tensor:
    return _of_layer(self, input)


# function, or class of a module -> what computes the result without data; a module comes first among the arguments.
# Entries of your own go before the rules.
manual_meta_overrides: dict[Any, Callable[..., Any]] = {
    torch.abs: torch_abs_override,
    torch.where: torch_where_override,
    torch.relu: torch_relu_override,
    F.relu: functional_relu_override,
    torch.nn.ReLU: torch_nn_relu_override,
    torch.nn.LayerNorm: nn_layernorm_override,
    torch.nn.Embedding: embedding_override,
}
