"""Tracing in one call: from a module or function to a module that does what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fxlib.capture.module_state import check_own, unchanged
from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule

__all__ = ["symbolic_trace"]


def symbolic_trace(root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Trace a module or function and return a `GraphModule` that does what it did.

    ``concrete_args`` fixes arguments, to remove control flow that depends on them::

        def scores(query, key, causal):
            found = query @ key.mT
            return found.tril() if causal else found

        gm = fxlib.symbolic_trace(scores, concrete_args={"causal": True})

    Other values of ``causal`` are refused when the result is called. Collections may be given too, with `PH` in place
    of what shall stay an input: ``concrete_args={"pyramid": [PH, PH, PH]}``.

    Attributes of the traced modules are afterwards what they were before: a proxy that ``forward`` keeps on a module,
    as in a cache, would be read by the next trace and the next call.

    Raises:
        TraceError and others: see `Tracer.trace`.
    """
    tracer = Tracer()
    named: Any = type(root) if isinstance(root, nn.Module) else root
    with unchanged(root) as kept:
        graph = tracer.trace(root, concrete_args)
        check_own(graph, kept)
        return GraphModule(graph=graph, root=tracer.root, class_name=named.__name__)
