"""Program scheduling: blocking remote calls become asynchronous, started as early and awaited as late as the graph
allows.

``rpc_sync(to, f, args)`` becomes ``rpc_async(to, f, args)`` right after the last of its inputs, and ``wait()`` right
before its first user, so that independent nodes run meanwhile (Reed et al. 2022, section 6.2.3). ``remote(...)``
followed by ``to_here()`` is moved apart likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed import rpc
from torch.utils._pytree import tree_leaves

from fxlib.capture.arguments import rule_of
from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.capture.wrapping import unwrapped
from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import Argument
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.calls import mutates
from fxlib.passes.edits import between, checked, insert_like, yield_to

__all__ = ["RpcTracer", "blocking_calls", "schedule_rpc"]


class RpcTracer(Tracer):
    """Records calls of ``torch.distributed.rpc`` in a model's forward, which an ordinary trace would execute
    immediately::

        schedule_rpc(fxlib.GraphModule(model, RpcTracer().trace(model)))

    Both ``rpc.rpc_sync(...)`` and an imported ``rpc_sync`` are seen, and a call through a reference,
    ``held.rpc_sync().look(x)``. A call without traced arguments is still executed while tracing, and the type of a
    remote object is queried.
    """

    def __init__(self) -> None:
        # Generated code names these functions in their own module. Nothing else there is wrapped, since a call executed
        # while tracing looks up torch's own classes in these modules.
        super().__init__(autowrap_modules=(math,), autowrap_functions=(rpc.rpc_sync, rpc.rpc_async, rpc.remote))
        self._autowrap_search += [rpc, rpc.api]

    def trace(self, root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """As `Tracer.trace`."""
        with _references_recorded():
            graph = super().trace(root, concrete_args)
        for node in graph.nodes:
            # Code that registers them by dotted name, which no module has among its globals, would make every trace
            # fail.
            if node.op == "call_function" and node.target in vars(rpc).values():
                node.meta.pop("is_wrapped", None)
        return graph

    def create_arg(self, a: Any) -> Argument:
        """As `Tracer.create_arg`; the function for the other process becomes an attribute of the root, and so do a
        worker and its contents."""
        kept = callable(a) or isinstance(a, (rpc.WorkerInfo, rpc.PyRRef))
        if not kept or isinstance(a, torch.nn.Module) or rule_of(a) is not None:
            return super().create_arg(a)
        function = unwrapped(a)
        known = next((name for name, value in vars(self.root).items() if value is function), None)
        name = known or self.get_fresh_qualname("_remote_function")
        setattr(self.root, name, function)
        return self.create_node("get_attr", name, (), {})


@contextmanager
def _references_recorded() -> Iterator[None]:
    """Turn a call through a reference, which torch would execute immediately, into the equivalent call of ``rpc``, so
    that it is recorded. Calls without traced values are unchanged."""
    from torch.distributed.rpc import rref_proxy  # not there in every build of torch

    made = rref_proxy._invoke_rpc

    def invoke(held: Any, api: Any, name: str, timeout: float, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(each, Proxy) for each in tree_leaves((args, kwargs))):
            return made(held, api, name, timeout, *args, **kwargs)
        # torch keeps the result, also for its own calls.
        kind = held._get_type(timeout=timeout, blocking=False).wait()
        awaited = hasattr(getattr(kind, name, None), "_wrapped_async_rpc_function")
        run = rref_proxy._local_invoke_async_execution if awaited else rref_proxy._local_invoke
        call = getattr(rpc, api.__name__)  # the patched function, which records
        return call(held.owner(), run, args=(held, name, args, kwargs), timeout=timeout)

    rref_proxy._invoke_rpc = invoke  # type: ignore[assignment]
    try:
        yield
    finally:
        rref_proxy._invoke_rpc = made


def blocking_calls() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The blocking remote functions that are known, with their asynchronous forms."""
    return {rpc.rpc_sync: rpc.rpc_async} if rpc.is_available() else {}


def starting_calls() -> set[Callable[..., Any]]:
    """Functions that return at once and whose answer is fetched by ``to_here``."""
    return {rpc.remote} if rpc.is_available() else set()


def schedule_rpc(
    graph_module: GraphModule,
    blocking: dict[Callable[..., Any], Callable[..., Any]] | None = None,
    ordered: bool = True,
) -> GraphModule:
    """Overlap remote calls with nodes that do not depend on them; changes and returns ``graph_module``.

    Args:
        blocking: function -> its asynchronous form, which returns an object with ``wait()``; by default
        `blocking_calls`.
            Functions that a trace should keep as calls have to be wrapped (``fxlib.wrap``).
        ordered: send calls in the order of the program, for servers whose calls have effects on each other. Without
        it each
            is sent as soon as its own inputs are there.

    A call is never sent before an operator that changes one of its inputs in place or that is impure. The number of
    calls made asynchronous is in ``meta["schedule_rpc"]``.
    """
    check_traced(graph_module, "schedule_rpc()")
    if blocking is not None and not isinstance(blocking, dict):
        raise TypeError(
            f"schedule_rpc(): blocking must be a dict of functions to their asynchronous forms, not "
            f"{type(blocking).__name__}"
        )
    table = blocking_calls() if blocking is None else blocking
    graph = graph_module.graph
    starting = starting_calls()
    starts: list[Node] = []
    waits: list[Node] = []
    for node in list(graph.nodes):
        match node.op, node.target:
            case "call_function", blocked if blocked in table:
                starts.append(insert_like(node, node, node.op, table[blocked], *node.args, **node.kwargs))
                waits.append(insert_like(node, node, "call_method", "wait", starts[-1]))
                yield_to(node, waits[-1])
            case "call_function", function if function in starting:
                starts.append(node)
            case "call_method", "to_here" if isinstance(node.args[0], Node):
                waits.append(node)
    for barrier, start in zip([None, *starts], starts, strict=False):
        _hoist(graph_module, start, barrier if ordered else None)
    position = {node: i for i, node in enumerate(graph.nodes)}
    for wait in sorted(waits, key=position.__getitem__, reverse=True):
        _sink(graph_module, wait, position)
    return checked(graph_module, schedule_rpc=len(waits))


_BEFORE_ALL = ("placeholder", "root")


def _hoist(root: GraphModule, start: Node, barrier: Node | None) -> None:
    """Move a call up to right after its dependencies: its inputs, effects on them, impure operators, the call before
    it.
    """
    needed = set(start.all_input_nodes)
    place = start.prev
    while not (place.op in _BEFORE_ALL or place is barrier or place in needed or _orders(root, place, needed)):
        place = place.prev
    if place is not start.prev:
        place.append(start)


def _orders(root: GraphModule, node: Node, needed: set[Node]) -> bool:
    """Whether a call must not move before this node, because the node may affect the call's inputs."""
    if node.op == "call_method" and node.target in ("wait", "to_here"):
        return False
    return mutates(root, node) is not None or (node.is_impure() and node.op != "placeholder")


def _sink(root: GraphModule, wait: Node, position: dict[Node, int]) -> None:
    """Move a wait down to right before its first user; one without users goes to the end."""
    users = sorted(wait.users, key=lambda n: position[n])
    target = users[0] if users else next(n for n in reversed(root.graph.nodes) if n.op == "output")
    target = next((node for node in between(wait, target) if _orders(root, node, set())), target)
    if target is not wait.next:
        target.prepend(wait)
