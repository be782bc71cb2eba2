"""Conversion of modules between torch.fx and fxlib."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.fx
from torch._ops import HigherOrderOperator

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.graphs import OURS, TORCH_FX, Library, converted, from_torch_graph, to_torch_graph

__all__ = ["adopted", "aten_graph", "from_torch_fx", "from_torch_graph", "in_place", "to_torch_fx", "to_torch_graph"]

_T = TypeVar("_T")


def from_torch_fx(gm: torch.fx.GraphModule) -> GraphModule:
    """The same module as an ``fxlib.GraphModule``.

    Nodes keep names, targets, arguments, types and metadata; graphs of ``torch.export``, ``make_fx`` and Dynamo keep
    their overloads, symbolic numbers, nested inputs and outputs, and the submodules of higher-order operators. The
    submodules of most higher-order operators are converted too. Those that torch.fx itself interprets
    (``tag_activation_checkpoint``, ``autograd_function_apply``, ``invoke_subgraph`` and others) stay torch.fx's.
    Parameters, buffers and other submodules are shared with ``gm``, which is not changed.

    Raises:
        TypeError: ``gm`` is not a ``torch.fx.GraphModule``.
    """
    return cast("GraphModule", _Conversion(_TORCH_FX, _OURS).module(gm))


def adopted(gm: Any) -> Any:
    """``gm``; if it is a module of torch.fx, converted to one of ours."""
    return from_torch_fx(gm) if isinstance(gm, torch.fx.GraphModule) else gm


def in_place(gm: Any, change: Callable[[GraphModule], _T]) -> _T:
    """``change(gm)``. If ``gm`` is a module of torch.fx, a converted copy is changed and the result is written back to
    ``gm``."""
    if not isinstance(gm, torch.fx.GraphModule):
        return change(gm)
    ours = from_torch_fx(gm)
    result = change(ours)
    changed = to_torch_fx(ours)
    for kind in ("_modules", "_parameters", "_buffers"):
        own, new = vars(gm)[kind], vars(changed)[kind]
        for name in own.keys() - new.keys():
            del own[name]
        for name, value in new.items():
            own.setdefault(name, value)
    gm.graph = changed.graph
    return result


def to_torch_fx(gm: GraphModule) -> torch.fx.GraphModule:
    """The same module as a ``torch.fx.GraphModule``, for tools that need one. The converse of ``from_torch_fx``.

    Raises:
        TypeError: ``gm`` is not an ``fxlib.GraphModule``.
    """
    return _Conversion(_OURS, _TORCH_FX).module(gm)


class _Side(NamedTuple):
    """One of the two libraries."""

    GraphModule: Any
    library: Library


_OURS, _TORCH_FX = _Side(GraphModule, OURS), _Side(torch.fx.GraphModule, TORCH_FX)

# Attributes that a GraphModule derives from its graph or sets up itself.
_OWN_STATE = frozenset(torch.fx.GraphModule({}, torch.fx.Graph()).__dict__) - {
    "training",
    "meta",
    "_parameters",
    "_buffers",
    "_non_persistent_buffers_set",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
}


# Operators that call the graphs they are given. Other operators hand them to torch.fx's Interpreter or to torch's
# compiler, which accept torch.fx's modules only.
_CALL_THEIR_GRAPHS = frozenset((
    "associative_scan", "cond", "flex_attention", "flex_attention_backward", "map_impl", "scan", "strict_mode",
    "while_loop", "wrap", "wrap_with_autocast", "wrap_with_set_grad_enabled",
))  # fmt: skip


def _interpreted_children(gm: torch.fx.GraphModule) -> set[str]:
    """The submodules that a converted module leaves as torch.fx's."""
    return {
        str(node.target)
        for node in gm.graph.find_nodes(op="get_attr")
        for user in node.users
        if isinstance(user.target, HigherOrderOperator) and user.target.name() not in _CALL_THEIR_GRAPHS
    }


class _Conversion:
    """One conversion; a module shared in the source is shared in the result."""

    def __init__(self, source: _Side, result: _Side) -> None:
        self.source = source
        self.result = result
        self.modules: dict[int, Any] = {}

    def module(self, gm: Any) -> Any:
        if not isinstance(gm, self.source.GraphModule):
            raise TypeError(f"expected a {self.source.GraphModule.__module__}.GraphModule, got {torch.typename(gm)}")
        if id(gm) not in self.modules:
            made = self.result.GraphModule({}, self.result.library.Graph(), type(gm).__name__)
            self.modules[id(gm)] = made
            self._copy_attributes(gm, made)
            self._copy_children(gm, made)
            made.graph = converted(gm.graph, self.source.library, self.result.library)
        return self.modules[id(gm)]

    @staticmethod
    def _copy_attributes(gm: Any, made: Any) -> None:
        for name in [name for name in vars(gm) if name not in _OWN_STATE]:
            value = vars(gm)[name]
            if isinstance(value, types.MethodType) and value.__self__ is gm:
                value = types.MethodType(value.__func__, made)
            elif isinstance(value, (dict, set)):
                value = value.copy()
            vars(made)[name] = value

    def _copy_children(self, gm: Any, made: Any) -> None:
        kept = _interpreted_children(gm) if self.source is _TORCH_FX else ()
        for name, child in gm._modules.items():
            converts = isinstance(child, self.source.GraphModule) and name not in kept
            made._modules[name] = self.module(child) if converts else child


def aten_graph(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GraphModule, list[Any]]:
    """A Python function as a graph of functional ATen operators, recorded on the shapes and dtypes of given tensors.

    Args:
        function: run once on fake tensors; it may read shapes; reading data fails.
        args, kwargs: tensors (their data is not used) anywhere among other values.

    Returns:
        the graph and the tensors, one placeholder for each, in the order of the arguments.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i] for i in places]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu") for t in tensors]

    def call(*inputs: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(places, inputs, strict=True):
            filled[place] = value
        inner, named = pytree.tree_unflatten(filled, spec)
        return function(*inner, **named)

    with torch.no_grad():
        return from_torch_fx(make_fx(torch.func.functionalize(call))(*fakes)), tensors
