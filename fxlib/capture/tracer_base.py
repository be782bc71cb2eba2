"""What every tracer does: turn operations on proxies into nodes, and handle those that cannot be recorded.

`TracerBase` knows nothing of modules; `Tracer` adds them. `GraphAppendingTracer` serves proxies that a program creates
itself. Each override point documents when to override it.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from torch import nn

from fxlib.capture import metadata, proxy
from fxlib.capture.arguments import IMMEDIATE, rule_of
from fxlib.capture.proxy import Attribute, Proxy
from fxlib.capture.scopes import ModuleStack, Scope, ScopeContextManager
from fxlib.capture.sites import SiteTaker
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.schemas import check_for_mutable_operation
from fxlib.ir.span import Site

__all__ = ["GraphAppendingTracer", "Scope", "ScopeContextManager", "TraceError", "TracerBase"]

_LENGTH = (
    "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
    "torch.fx.wrap('len') at module scope"
)
_CONTROL_FLOW = "symbolically traced variables cannot be used as inputs to control flow"
_ITERATION = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
    "function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control "
    "flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
)

_CONTROL_FLOW_WAY_OUT = (
    "Use torch.where to choose by value, fix the argument with concrete_args to choose once, or put the "
    "code into a function registered with fxlib.wrap."
)
_LENGTH_WAY_OUT = "With fxlib that is fxlib.wrap('len'). For a size write x.shape[0]."
_ITERATION_WAY_OUT = (
    "Unpack into a fixed number of names, index the value, or put the loop into a function registered with fxlib.wrap."
)
_ARGUMENT_WAY_OUT = (
    "Arguments are tensors, numbers, text, dtypes, devices, enums, and tuples, lists, dicts, slices and data classes "
    "of them. Override Tracer.create_arg, give the class a method __fx_create_arg__, or create the value inside a "
    "function registered with fxlib.wrap."
)

_A = TypeVar("_A", bound=tuple[Any, ...] | dict[str, Any])


class TraceError(ValueError):
    """The program needed something of a proxy that only a real value has."""


class TracerBase(SiteTaker):
    """Appends nodes to ``graph`` for the operations on proxies.

    Attributes:
        record_stack_traces: keep the stack as text in ``node.stack_trace``. Slow; every node of a trace has an exact
            source span (``node.span``) without it.
        check_mutable_operations: refuse operators that write into their arguments.
        trace_asserts: record ``assert proxy`` as a call that checks when the graph runs.
        proxy_buffer_attributes: read buffers through ``get_attr`` nodes, as parameters are.
        traced_func_name: the method of the root module that is traced.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: ModuleStack
    node_name_to_scope: dict[str, tuple[str, type[nn.Module] | None]]

    #: The site of the node to be created next, if it was taken earlier.
    _pending_site: Site | None = None
    _stack_changed: bool = True

    def __init__(self) -> None:
        self.scope, self.module_stack, self.node_name_to_scope = Scope("", None), OrderedDict(), {}

    # --- override points ----------------------------------------------------------------------------------------------

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a node, its arguments being ready.

        Override it to check or change what goes into the graph, for example to reject in-place operations or to set
        ``meta`` of every node.
        """
        if self.check_mutable_operations and kind == "call_function":
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        made = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self._note_scope(made)
        if self._tracing:
            made._site = self._pending_site or self._take_site(sys._getframe(1))  # type: ignore[assignment]
            self._pending_site = None
        if self.record_stack_traces and not made.stack_trace:
            made.stack_trace = self._stack_as_text(sys._getframe(1))
        return made

    def _note_scope(self, made: Node) -> None:
        """Record which module's code a new node comes from."""
        scope = self.scope
        self.node_name_to_scope[made.name] = scope.module_path, scope.module_type
        if metadata.has_preserved_node_meta():
            made.meta.update(metadata.inherited())
        elif self.module_stack:
            made.meta["nn_module_stack"] = copy.copy(self.module_stack)

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a new node. Override it to use your own Proxy subclass."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Record one operation whose arguments are values of the program, proxies among them.

        Override it to act on operations before their arguments are lowered, or on the proxies that come out.

        Raises:
            AssertionError: an override of `create_arg` made something else of ``args`` or ``kwargs``.
        """
        lowered = self._lowered("args_", tuple, args), self._lowered("kwargs_", dict, kwargs)
        return (proxy_factory_fn or self.proxy)(self.create_node(kind, target, *lowered, name, type_expr))

    def create_arg(self, a: Any) -> Argument:
        """Lower a value of the program into an argument of a node.

        Override it to let values of further types be arguments; call this one for the rest. A class can do the same
        for itself with a method ``__fx_create_arg__(self, tracer)``.

        Raises:
            NotImplementedError: the value cannot be an argument.
            RuntimeError: a dict has a traced value as a key.
        """
        if type(a) in IMMEDIATE:
            return a
        rule = rule_of(a)
        return self._unknown_argument(a) if rule is None else rule(self, a)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth value of a proxy, needed by ``if``, ``while``, ``and``, ``assert`` and the like.

        Override it if the tracer knows, because it has example values or records the condition in the graph.

        Raises:
            TraceError: always, here.
        """
        raise TraceError(self._explain(_CONTROL_FLOW, _CONTROL_FLOW_WAY_OUT))

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """An iterator over a proxy, needed by loops, comprehensions and ``*proxy``.

        Override it if the tracer knows the number of items.

        Raises:
            TraceError: always, here.
        """
        raise TraceError(self._explain(_ITERATION, _ITERATION_WAY_OUT))

    def keys(self, obj: Proxy) -> Any:
        """The result of ``proxy.keys()``; Python also calls it for ``**proxy``.

        Override it to return an iterator over known keys to make ``**proxy`` work.
        """
        return Attribute(obj, "keys")()

    def _length(self, obj: Proxy) -> int:
        """The length of a proxy. Python requires an int, so the call itself cannot be recorded."""
        raise RuntimeError(self._explain(_LENGTH, _LENGTH_WAY_OUT))

    # --- between proxies and nodes ------------------------------------------------------------------------------------

    def _emit(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        name: str | None = None,
        site: Site | None = None,
    ) -> Proxy:
        """How proxies record an operation. `Tracer` replaces it by a single pass if nothing is overridden."""
        self._pending_site = site
        wished = {} if name is None else {"name": name}
        return self.create_proxy(kind, target, args, kwargs, **wished)  # type: ignore[arg-type]

    def _wrapped(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A function that is wrapped was recorded; a diagnosis looks at the arguments as they were."""

    def _lowered(self, what: str, kind: type[_A], values: _A) -> _A:
        """The arguments of one operation, as a node takes them."""
        lowered = self.create_arg(values)
        if isinstance(lowered, kind):
            return lowered
        raise AssertionError(f"Expected {what} to be {kind.__name__}, got {type(lowered)}")

    def _unknown_argument(self, a: Any) -> Argument:
        """Handle a value that cannot be an argument: raises, unless a tracer overrides it to continue."""
        raise NotImplementedError(self._explain(f"argument of type: {type(a)}", _ARGUMENT_WAY_OUT))

    def _create_key(self, key: Any) -> Any:
        """A key of a dict among the arguments, which may hold no traced value."""
        lowered = self.create_arg(key)
        if type(lowered) in IMMEDIATE:
            return lowered
        nodes: list[Node] = []
        normal = map_aggregate(lowered, lambda leaf: nodes.append(leaf) if isinstance(leaf, Node) else leaf)
        if nodes:
            raise RuntimeError(
                self._explain(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {nodes[0]}")
            )
        return normal


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists: the tracer of ``Proxy(node)``."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


proxy._tracer_of_graph = GraphAppendingTracer
# The public module path of these names, which error texts show.
for _cls in (TraceError, Scope, ScopeContextManager, TracerBase, GraphAppendingTracer):
    _cls.__module__ = "fxlib.proxy"
