"""Program scheduling: blocking remote calls become asynchronous, sent as early and awaited as late as the graph allows.

``rpc_sync(to, f, args)`` becomes ``rpc_async(to, f, args)`` right after the last of its inputs, and ``wait()`` right
before its first user, so that what does not need the answer runs meanwhile (Reed et al. 2022, section 6.2.3).
``remote(...)`` followed by ``to_here()`` is moved apart likewise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.calls import mutates

__all__ = ["blocking_calls", "remote_call", "remote_call_async", "schedule_rpc"]


def remote_call(to: str, function: str, *args: Any) -> Any:
    """Run ``"module:name"`` on worker ``to`` with ``args`` and wait for the answer; a trace keeps it as one call.

    ``rpc_sync`` takes a function object, which cannot be an argument in a graph; this takes its name.
    """
    if has_torch_function(args):
        return handle_torch_function(remote_call, args, to, function, *args)
    return remote_call_async(to, function, *args).wait()


def remote_call_async(to: str, function: str, *args: Any) -> Any:
    """As `remote_call`, returning a future with ``wait()``."""
    import torch.distributed.rpc as rpc

    return rpc.rpc_async(to, _named_call, args=(function, args))


def _named_call(function: str, args: tuple[Any, ...]) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(*args)


def blocking_calls() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The blocking remote functions that are known, with their asynchronous forms."""
    import torch.distributed.rpc as rpc

    found: dict[Callable[..., Any], Callable[..., Any]] = {remote_call: remote_call_async}
    if hasattr(rpc, "rpc_sync"):
        found[rpc.rpc_sync] = rpc.rpc_async
    return found


def starting_calls() -> set[Callable[..., Any]]:
    """Functions that return at once and whose answer is fetched by ``to_here``."""
    import torch.distributed.rpc as rpc

    return {rpc.remote} if hasattr(rpc, "remote") else set()


def schedule_rpc(
    graph_module: GraphModule,
    blocking: dict[Callable[..., Any], Callable[..., Any]] | None = None,
    ordered: bool = True,
) -> GraphModule:
    """Overlap remote calls with whatever does not depend on them; changes and returns ``graph_module``.

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
    table = blocking_calls() if blocking is None else blocking
    graph = graph_module.graph
    waits: list[Node] = []
    starts: list[Node] = []
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in table:
            with graph.inserting_before(node):
                start = graph.call_function(table[node.target], node.args, dict(node.kwargs))
                wait = graph.call_method("wait", (start,))
            start.meta, wait.meta = dict(node.meta), dict(node.meta)
            node.replace_all_uses_with(wait)
            graph.erase_node(node)
            starts.append(start)
            waits.append(wait)
        elif node.op == "call_function" and node.target in starting_calls():
            starts.append(node)
        elif node.op == "call_method" and node.target == "to_here" and isinstance(node.args[0], Node):
            waits.append(node)
    barrier: Node | None = None
    for start in starts:
        _hoist(graph_module, start, barrier if ordered else None)
        barrier = start
    position = {node: i for i, node in enumerate(graph.nodes)}
    for wait in sorted(waits, key=lambda n: -position[n]):
        _sink(graph_module, wait, position)
    graph.lint()
    graph_module.recompile()
    graph_module.meta["schedule_rpc"] = len(waits)
    return graph_module


def _hoist(root: GraphModule, start: Node, barrier: Node | None) -> None:
    """Move a call up to right after what it needs: its inputs, effects on them, impure operators, the call before
    it.
    """
    needed = set(start.all_input_nodes)
    place = start.prev
    while place.op not in ("placeholder", "root"):
        if place in needed or place is barrier or _orders(root, place, needed):
            break
        place = place.prev
    if place is not start.prev:
        place.append(start)


def _orders(root: GraphModule, node: Node, needed: set[Node]) -> bool:
    """Whether a call may not be sent before this node: it has an effect, maybe on the call's inputs."""
    if node.op == "call_method" and node.target in ("wait", "to_here"):
        return False
    return mutates(root, node) is not None or (node.is_impure() and node.op != "placeholder")


def _sink(root: GraphModule, wait: Node, position: dict[Node, int]) -> None:
    """Move a wait down to right before its first user; one without users goes to the end, where it still is awaited."""
    users = sorted(wait.users, key=lambda n: position[n])
    target = users[0] if users else next(n for n in reversed(root.graph.nodes) if n.op == "output")
    node = wait.next
    while node is not target:
        if _orders(root, node, set()):
            target = node
            break
        node = node.next
    if target is not wait.next:
        target.prepend(wait)
