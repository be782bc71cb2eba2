"""Graphs and modules of torch.fx as ours, and ours as torch.fx's."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.fx
from torch._ops import HigherOrderOperator

from fxlib.codegen.function import CodeGen, _PyTreeCodeGen, _PyTreeInfo
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

__all__ = ["adopted", "aten_graph", "from_torch_fx", "from_torch_graph", "in_place", "to_torch_fx", "to_torch_graph"]

_T = TypeVar("_T")


def from_torch_fx(gm: torch.fx.GraphModule) -> GraphModule:
    """The same module as an ``fxlib.GraphModule``.

    Nodes keep names, targets, arguments, types and metadata; graphs of ``torch.export``, ``make_fx`` and Dynamo keep
    their overloads, symbolic numbers, nested inputs and outputs, and the submodules of higher-order operators. These
    are converted too, but for those of operators that have torch.fx interpret them (``tag_activation_checkpoint``,
    ``autograd_function_apply``, ``invoke_subgraph`` and others), which take no other modules. Parameters, buffers and
    other submodules are shared with ``gm``, which is not changed.

    Raises:
        TypeError: ``gm`` is no ``torch.fx.GraphModule``.
    """
    return cast("GraphModule", _Conversion(_TORCH_FX, _OURS).module(gm))


def adopted(gm: Any) -> Any:
    """``gm``, as a module of ours where it is one of torch.fx."""
    return from_torch_fx(gm) if isinstance(gm, torch.fx.GraphModule) else gm


def in_place(gm: Any, change: Callable[[GraphModule], _T]) -> _T:
    """``change(gm)``; where ``gm`` is a module of torch.fx, a copy of ours is changed and ``gm`` becomes what it is."""
    if not isinstance(gm, torch.fx.GraphModule):
        return change(gm)
    ours = from_torch_fx(gm)
    result = change(ours)
    changed = to_torch_fx(ours)
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (gm._modules, changed._modules),
        (gm._parameters, changed._parameters),
        (gm._buffers, changed._buffers),
    ]
    for own, new in pairs:
        for name in [name for name in own if name not in new]:
            del own[name]
        own.update({name: value for name, value in new.items() if name not in own})
    gm.graph = changed.graph
    return result


def from_torch_graph(graph: Any) -> Graph:
    """A copy of a graph of torch.fx as an ``fxlib.Graph``.

    Raises:
        TypeError: ``graph`` is no ``torch.fx.Graph``.
    """
    if not isinstance(graph, torch.fx.Graph):
        raise TypeError(f"expected a torch.fx.Graph, got {torch.typename(graph)}")
    return _Conversion(_TORCH_FX, _OURS).graph(graph)


def to_torch_fx(gm: GraphModule) -> torch.fx.GraphModule:
    """The same module as a ``torch.fx.GraphModule``, for tools that ask for one. The converse of ``from_torch_fx``.

    Raises:
        TypeError: ``gm`` is no ``fxlib.GraphModule``.
    """
    return _Conversion(_OURS, _TORCH_FX).module(gm)


def to_torch_graph(graph: Graph) -> torch.fx.Graph:
    """A copy of a graph of ours as a ``torch.fx.Graph``."""
    return cast("torch.fx.Graph", _Conversion(_OURS, _TORCH_FX).graph(graph))


class _Library(NamedTuple):
    """The classes of one of the two libraries."""

    GraphModule: Any
    Graph: Any
    Node: Any
    CodeGen: Any
    PyTreeCodeGen: Any
    PyTreeInfo: Any


_OURS = _Library(GraphModule, Graph, Node, CodeGen, _PyTreeCodeGen, _PyTreeInfo)
_TORCH_FX = _Library(
    torch.fx.GraphModule,
    torch.fx.Graph,
    torch.fx.Node,
    torch.fx.graph.CodeGen,
    torch.fx.graph._PyTreeCodeGen,
    torch.fx.graph._PyTreeInfo,
)

# What a GraphModule makes of its graph, or sets up for itself.
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


# The operators that call the graphs they are given. Others hand them to torch.fx's Interpreter, or to torch's compiler,
# which take torch.fx's modules only.
_CALL_THEIR_GRAPHS = frozenset((
    "associative_scan", "cond", "flex_attention", "flex_attention_backward", "map_impl", "scan", "strict_mode",
    "while_loop", "wrap", "wrap_with_autocast", "wrap_with_set_grad_enabled",
))  # fmt: skip


def _interpreted_children(gm: torch.fx.GraphModule) -> set[str]:
    """The submodules that stay torch.fx's in a converted module."""
    return {
        str(node.target)
        for node in gm.graph.find_nodes(op="get_attr")
        for user in node.users
        if isinstance(user.target, HigherOrderOperator) and user.target.name() not in _CALL_THEIR_GRAPHS
    }


class _ForeignCodeGen:
    """Mixed into a CodeGen: lets a code generator of the other library write the signature and the output."""

    foreign: Any

    def __init__(self, foreign: Any) -> None:
        super().__init__()
        self.foreign = foreign

    def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:
        return self.foreign.gen_fn_def(*args, **kwargs)

    def generate_output(self, *args: Any, **kwargs: Any) -> str:
        return self.foreign.generate_output(*args, **kwargs)

    def process_inputs(self, *args: Any) -> Any:
        return self.foreign.process_inputs(*args)

    def process_outputs(self, outputs: Any) -> Any:
        return self.foreign.process_outputs(outputs)

    def additional_globals(self) -> Any:
        return self.foreign.additional_globals()


class _Conversion:
    """One conversion; a module that occurs twice in the source occurs twice in the result."""

    def __init__(self, source: _Library, result: _Library) -> None:
        self.source = source
        self.result = result
        self.modules: dict[int, Any] = {}

    def module(self, gm: Any) -> Any:
        if not isinstance(gm, self.source.GraphModule):
            raise TypeError(f"expected a {self.source.GraphModule.__module__}.GraphModule, got {torch.typename(gm)}")
        if id(gm) in self.modules:
            return self.modules[id(gm)]
        made = self.result.GraphModule({}, self.result.Graph(), type(gm).__name__)
        self.modules[id(gm)] = made
        for name, value in gm.__dict__.items():
            if name in _OWN_STATE:
                continue
            if isinstance(value, types.MethodType) and value.__self__ is gm:
                value = types.MethodType(value.__func__, made)
            elif isinstance(value, (dict, set)):
                value = value.copy()
            made.__dict__[name] = value
        interpreted = _interpreted_children(gm) if self.source is _TORCH_FX else ()
        for name, child in gm._modules.items():
            converts = isinstance(child, self.source.GraphModule) and name not in interpreted
            made._modules[name] = self.module(child) if converts else child
        made.graph = self.graph(gm.graph)
        return made

    def graph(self, graph: Any) -> Any:
        made = self.result.Graph(tracer_extras=graph._tracer_extras)
        made._codegen = self.codegen(graph._codegen)
        copies: dict[Any, Any] = {}
        for node in graph.nodes:
            args = tuple(self.argument(arg, copies) for arg in node.args)
            kwargs = {name: self.argument(arg, copies) for name, arg in node.kwargs.items()}
            copied = made.create_node(node.op, node.target, args, kwargs, name=node.name, type_expr=node.type)
            if copied.name != node.name:
                copied.name = node.name
            copied.meta = {
                key: copies[value] if isinstance(value, self.source.Node) and value in copies else value
                for key, value in node.meta.items()
            }
            copies[node] = copied
        for node, copied in copies.items():
            # Nodes inserted later than they stand are listed later among the users.
            users = dict.fromkeys(copies[user] for user in node.users)
            copied.users.clear()
            copied.users.update(users)
        return made

    def argument(self, arg: Any, copies: dict[Any, Any]) -> Any:
        if isinstance(arg, self.source.Node):
            return copies[arg]
        if isinstance(arg, tuple):
            values = [self.argument(entry, copies) for entry in arg]
            return type(arg)(*values) if hasattr(arg, "_fields") else tuple(values)
        if isinstance(arg, list):
            return [self.argument(entry, copies) for entry in arg]
        if isinstance(arg, dict):
            return {key: self.argument(entry, copies) for key, entry in arg.items()}
        if isinstance(arg, slice):
            return slice(*(self.argument(entry, copies) for entry in (arg.start, arg.stop, arg.step)))
        return arg

    def codegen(self, codegen: Any) -> Any:
        kind = type(codegen)
        if isinstance(codegen, _ForeignCodeGen):
            return codegen.foreign
        if kind is self.source.CodeGen:
            made = self.result.CodeGen()
        elif kind is self.source.PyTreeCodeGen:
            made = self.result.PyTreeCodeGen(self.result.PyTreeInfo(*codegen.pytree_info))
        else:
            made = type(kind.__name__, (_ForeignCodeGen, self.result.CodeGen), {})(codegen)
        made._body_transformer = codegen._body_transformer
        made._func_name = codegen._func_name
        return made


def aten_graph(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GraphModule, list[Any]]:
    """A Python function as a graph of functional ATen operators, recorded on the shapes and dtypes of given tensors.

    Args:
        function: run once on fake tensors; it may ask for shapes, and fails where it asks for data.
        args, kwargs: tensors (their data is not used) anywhere among other values.

    Returns:
        the graph, whose placeholders are the tensors in the order in which they stand in the arguments, and these.
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
