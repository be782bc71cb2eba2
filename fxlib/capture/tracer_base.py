"""What every tracer does: turn operations on proxies into nodes, and answer the questions that proxies cannot.

`TracerBase` knows nothing of modules; `fxlib.tracer.Tracer` adds them. `GraphAppendingTracer` is the one behind a proxy
that was made by hand. Each override point says when one would override it.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import torch
from torch._library.opaque_object import is_opaque_value_type

from fxlib.capture import metadata as _fx_traceback
from fxlib.capture.proxy import Attribute, Proxy
from fxlib.ir import span as _span
from fxlib.ir.arguments import Argument, Target, base_types, map_aggregate
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.schemas import check_for_mutable_operation

__all__ = ["GraphAppendingTracer", "Scope", "ScopeContextManager", "TraceError", "TracerBase"]

_COPY_META_FIELDS = [
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "_numeric_debug_handle",
    "custom",
    "partitioner_tag",
]

# Types whose values are arguments as they are, found by exact type.
_IMMEDIATE = frozenset(
    {
        str,
        int,
        float,
        bool,
        complex,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.layout,
        torch.SymInt,
        torch.SymBool,
        torch.SymFloat,
        torch._ops.OpOverload,
    }
)

# Code that runs for more than one value, so that its caller is not fixed while its frame lives.
_RESUMABLE = 0x20 | 0x80 | 0x100 | 0x200

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
    "Write torch.where for a choice by value, give the argument in concrete_args for a choice made once, or put the "
    "code into a function registered with fxlib.wrap."
)
_ITERATION_WAY_OUT = (
    "Unpack into a fixed number of names, index the value, or put the loop into a function registered with fxlib.wrap."
)
_ARGUMENT_WAY_OUT = (
    "Arguments are tensors, numbers, text, dtypes, devices, enums, and tuples, lists, dicts, slices and data classes "
    "of them. Override Tracer.create_arg, give the class a method __fx_create_arg__, or make the value inside a "
    "function registered with fxlib.wrap."
)


class TraceError(ValueError):
    """The program asked a proxy for something that only a real value has."""


class Scope:
    """Which module the code that is being traced belongs to.

    ``module_path`` is the qualified name of the module whose ``forward`` runs (``""`` for the root) and
    ``module_type`` its class (None for the root).
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Makes ``scope`` say what ``current_scope`` says, and puts it back on leaving."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope = copy.copy(scope)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


class TracerBase:
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
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    # What `Tracer.trace` sets while it runs.
    _tracing: bool = False
    _site_base: Any = None
    _site_frame: FrameType | None = None
    _site_parent: Any = None
    _site_inner: FrameType | None = None
    _pending_site: Any = None
    _stack_changed: bool = True
    _own_code: frozenset[int] = frozenset()

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

        Override it to check or change what goes into the graph: to refuse in-place operations, say, or to put
        something into the ``meta`` of every node.
        """
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = self.scope
        self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if _fx_traceback.has_preserved_node_meta():
            _inherit_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self._tracing:
            node._site, self._pending_site = self._pending_site or self._take_site(sys._getframe(1)), None
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = self._stack_as_text(sys._getframe(1))
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a new node. Override it to let values flow as a Proxy subclass of your own."""
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
        """
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs)
        if not isinstance(args_, tuple):
            raise AssertionError(f"Expected args_ to be tuple, got {type(args_)}")
        if not isinstance(kwargs_, dict):
            raise AssertionError(f"Expected kwargs_ to be dict, got {type(kwargs_)}")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """Lower a value of the program into an argument of a node.

        Override it to let values of further types be arguments; call this one for the rest. A class can do the same
        for itself with a method ``__fx_create_arg__(self, tracer)``.

        Raises:
            NotImplementedError: the value can be no argument.
            RuntimeError: a dict has a traced value as a key.
        """
        kind = type(a)
        if kind in _IMMEDIATE:
            return a
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        create = self.create_arg
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return kind(*[create(item) for item in a])
            return kind([create(item) for item in a])  # type: ignore[call-arg]
        if isinstance(a, list):
            return kind([create(item) for item in a])
        if isinstance(a, dict):
            return {self._create_key(key): create(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(create(a.start), create(a.stop), create(a.step))
        if isinstance(a, range):
            return range(create(a.start), create(a.stop), create(a.step))  # type: ignore[arg-type]
        if isinstance(a, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) or is_opaque_value_type(kind):
            return a  # type: ignore[return-value]
        if dataclasses.is_dataclass(a):
            fields = {field.name: create(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", a.__class__, (), fields)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum)):
            return a  # type: ignore[return-value]
        return self._unknown_argument(a)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy, asked for by ``if``, ``while``, ``and``, ``assert`` and their like.

        Override it when the tracer can know: because it carries example values, or records the question in the graph.

        Raises:
            TraceError: always, here.
        """
        raise TraceError(self._explain(_CONTROL_FLOW, _CONTROL_FLOW_WAY_OUT))

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """An iterator over a proxy, asked for by loops, comprehensions and ``*proxy``.

        Override it when the tracer can know how many items there are.

        Raises:
            TraceError: always, here.
        """
        raise TraceError(self._explain(_ITERATION, _ITERATION_WAY_OUT))

    def keys(self, obj: Proxy) -> Any:
        """What ``proxy.keys()`` gives; Python also asks for ``**proxy``.

        Override it to return an iterator over known keys if ``**proxy`` shall work.
        """
        return Attribute(obj, "keys")()

    def _length(self, obj: Proxy) -> int:
        """The length of a proxy. Python takes nothing but an int for it, so the call itself cannot be recorded."""
        raise RuntimeError(self._explain(_LENGTH))

    # --- between proxies and nodes ------------------------------------------------------------------------------------

    def _emit(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        site: Any = None,
    ) -> Proxy:
        """How proxies record an operation. `Tracer` replaces it by one pass when nothing is overridden."""
        self._pending_site = site
        if name is None:
            return self.create_proxy(kind, target, args, kwargs)
        return self.create_proxy(kind, target, args, kwargs, name=name)

    def _unknown_argument(self, a: Any) -> Argument:
        """What becomes of a value that can be no argument: an error, unless a tracer that continues knows better."""
        raise NotImplementedError(self._explain(f"argument of type: {type(a)}", _ARGUMENT_WAY_OUT))

    def _create_key(self, key: Any) -> Any:
        def refuse(arg: Any) -> Any:
            if isinstance(arg, Node):
                raise RuntimeError(
                    self._explain(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {arg}")
                )
            return arg

        return map_aggregate(self.create_arg(key), refuse)

    # --- source sites -------------------------------------------------------------------------------------------------

    def current_site(self) -> Any:
        """The site (see `fxlib.span`) of the expression of the user's program that is being evaluated, or None.

        For tracers that want to say where a question was asked.
        """
        return self._take_site(sys._getframe(1))

    def _take_site(self, frame: FrameType | None) -> Any:
        """The site of the innermost user's frame from ``frame`` outwards."""
        hidden, own, start = _span._hidden, self._own_code, frame
        while frame is not None:
            code = frame.f_code
            known = hidden.get(code.co_filename)
            if known is None:
                known = _span.is_hidden(code.co_filename)
            if known:
                if code is _BOUNDARY:
                    if start is not None and not start.f_code.co_flags & _RESUMABLE:
                        # No frame of the user's from here to the boundary, as in torch's own containers.
                        self._site_inner = start
                    return self._site_base
            elif not own or id(code) not in own:
                break
            frame = frame.f_back
        else:
            return None
        if frame is self._site_frame:
            return (code, frame.f_lasti, self._site_parent)
        parent = self._site_above(frame)
        if not code.co_flags & _RESUMABLE:
            # While a function runs, its callers stand still: the next operation in this frame has the same parent.
            self._site_frame, self._site_parent = frame, parent
        return (code, frame.f_lasti, parent)

    def _site_above(self, frame: FrameType) -> Any:
        if not self._tracing or frame.f_back is None:
            return None
        return _span.current_site(frame.f_back, self._site_base, self._own_code)

    def _explain(self, message: str, way_out: str = "") -> str:
        """``message`` (which begins as torch.fx's), where the user's expression is, and what to write instead."""
        lines = [message]
        span = _span.resolve(self._take_site(sys._getframe(2)))
        if span is not None:
            text = _span.source_text(span)
            shown = f": {' '.join(text.split())}" if text else ""
            lines.append(f"  in {span.file}:{span.line}:{span.column + 1}{shown}")
        if way_out:
            lines.append(f"  {way_out}")
        return "\n".join(lines)

    def _stack_as_text(self, frame: FrameType | None) -> str:
        """The stack of the user's program, outermost call first, as Python prints it."""
        frames: list[tuple[CodeType, int]] = []
        while frame is not None:
            code = frame.f_code
            if code is _BOUNDARY and self._record_forward_stack_traces_only and self._site_base is None:
                break
            if not _span.is_hidden(code.co_filename) and id(code) not in self._own_code:
                frames.append((code, frame.f_lineno))
            frame = frame.f_back
        summary = [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in reversed(frames)]
        return "".join(traceback.StackSummary.from_list(summary).format()).strip()


_BOUNDARY = _span.BOUNDARY


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists: the tracer of ``Proxy(node)``."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


# Users know these from here, and error texts name them.
for _cls in (TraceError, Scope, ScopeContextManager, TracerBase, GraphAppendingTracer):
    _cls.__module__ = "fxlib.proxy"


def _inherit_meta(node: Node) -> None:
    """Give ``node`` the metadata that `fxlib.traceback` says is current."""
    current = _fx_traceback.get_current_meta()
    stack_trace = current.get("stack_trace")
    if stack_trace:
        node.stack_trace = stack_trace
        if _fx_traceback.GRADIENT_ACC_SPECIAL_STACK in stack_trace:
            node.meta["is_gradient_acc"] = True
    if current.get("autograd_backward", False):
        node.meta["autograd_backward"] = True
    for field in _COPY_META_FIELDS:
        if field in current:
            node.meta[field] = copy.copy(current[field])
    replayed = _fx_traceback.get_current_replay_node()
    number = _sequence_number(current, replayed)
    if number is not None:
        node.meta["seq_nr"] = number
    if replayed is not None:
        node.meta["is_functional_regenerated"] = True
        if "custom" in replayed.meta:
            node.meta["custom"] = replayed.meta["custom"]


def _sequence_number(current: dict[str, Any], replayed: Node | None) -> int | None:
    """The autograd sequence number that ties a forward operation to its backward."""
    preserving = _fx_traceback._is_preserving_node_seq_nr()
    if replayed is not None and not preserving and "seq_nr" in replayed.meta:
        return replayed.meta["seq_nr"]
    if current.get("in_grad_fn", 0) > 0:
        return current["grad_fn_seq_nr"][-1]
    return current.get("seq_nr") if preserving else torch.autograd._get_sequence_nr() - 1
