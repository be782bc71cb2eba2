"""Tracing in one call: from a module or function to an equivalent GraphModule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fxlib.capture.module_state import check_own, unchanged
from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule

__all__ = ["symbolic_trace"]


def symbolic_trace(root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Trace a module or function and return an equivalent `GraphModule`.

    ``concrete_args`` fixes arguments, to remove control flow that depends on them::

        def scores(query, key, causal):
            found = query @ key.mT
            return found.tril() if causal else found

        gm = fxlib.symbolic_trace(scores, concrete_args={"causal": True})

    Other values of ``causal`` are refused when the result is called. Collections may be given too, with `PH` for each
    part that stays an input: ``concrete_args={"pyramid": [PH, PH, PH]}``.

    Attributes of the traced modules are restored: a proxy that ``forward`` stores on a module, as in a cache, would be
    read by the next trace or call.

    Raises:
        TraceError and others: see `Tracer.trace`.
    """
    tracer = Tracer()
    named: Any = type(root) if isinstance(root, nn.Module) else root
    with unchanged(root) as kept:
        graph = tracer.trace(root, concrete_args)
        check_own(graph, kept)
        return GraphModule(graph=graph, root=tracer.root, class_name=named.__name__)
