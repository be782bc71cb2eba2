"""The current metadata, which newly created nodes receive.

``preserve_node_meta`` switches copying on, ``set_current_meta`` sets the node that is being replayed, ``annotate`` adds
metadata of the user's own. The state is one per process and shared with torch's tracers (see ``interop``), so that
annotations reach graphs captured by ``torch.export`` and ``make_fx`` too.
"""

from __future__ import annotations

import copy
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from typing_extensions import ParamSpec

from fxlib.capture.node_source import NodeSource, NodeSourceAction
from fxlib.interop.torch_side import torch_traceback_state as _state

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule
    from fxlib.ir.graph import Graph
    from fxlib.ir.node import Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "inherited",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

GRADIENT_ACC_SPECIAL_STACK = "Gradient addition node due to multiple use of tensor around:"
MEMORY_BUDGET_ANNOTATION_KEY = "_region_activation_memory_budget"

_FX_METADATA_REGISTRY: dict[str, dict[str, Any]] = {}
_regional_inductor = threading.local()


def __getattr__(name: str) -> object:
    # The state itself, which contexts rebind on entering and leaving.
    if name in {"current_meta", "should_preserve_node_meta", "_should_preserve_node_meta", "current_replay_node"}:
        return getattr(_state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def _setting(**values: object) -> Iterator[None]:
    """Set ``values`` in the shared state, and restore it on leaving."""
    saved = {name: getattr(_state, name) for name in values}
    for name, value in values.items():
        setattr(_state, name, value)
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(_state, name, value)


@contextmanager
def _entry(name: str, value: object) -> Iterator[None]:
    """Set ``value`` under ``name`` in the current metadata (None: unchanged), and restore it on leaving."""
    meta = _state.current_meta
    before = meta.get(name)
    if value is not None:
        meta[name] = value
    try:
        yield
    finally:
        meta[name] = before
        if before is None:
            del meta[name]


def _register_fx_metadata(module_name: str, metadata: dict[str, Any]) -> None:
    """Keeps ``metadata`` of the generated module ``module_name`` for tools such as the profiler."""
    _FX_METADATA_REGISTRY[module_name] = metadata


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Nodes created inside get the current metadata; the former metadata is restored on leaving."""
    with _setting(should_preserve_node_meta=enable, current_meta=_state.current_meta.copy()):
        yield


def has_preserved_node_meta() -> bool:
    """Whether nodes created now get the current metadata."""
    return _state.should_preserve_node_meta


@contextmanager
def _preserve_node_seq_nr(preserve_seq_nr: bool = True) -> Iterator[None]:
    with _setting(_should_preserve_node_meta=preserve_seq_nr):
        yield


def _is_preserving_node_seq_nr() -> bool:
    return _state._should_preserve_node_meta


def get_current_meta() -> dict[str, Any]:
    """The metadata that a node created now would get."""
    return _state.current_meta


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """While ``node`` is replayed: its metadata and origin are current.

    Without effect outside ``preserve_node_meta`` and for a node without metadata.
    """
    change: dict[str, Any] = {}
    if has_preserved_node_meta() and node.meta:
        origin = NodeSource(node, pass_name, NodeSourceAction.CREATE)
        change["current_meta"] = {**node.meta, "from_node": [origin]}
    with _setting(**change):
        yield


def set_stack_trace(stack: list[str]) -> None:
    """Makes ``stack`` the stack trace of nodes created from now on."""
    if _state.should_preserve_node_meta and stack:
        _state.current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The stack trace that is current, or, when none is preserved, the one of the caller."""
    if _state.should_preserve_node_meta:
        return [_state.current_meta.get("stack_trace", "")]
    return traceback.format_stack(sys._getframe(1))


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Nodes captured inside carry ``annotation_dict`` in ``node.meta["custom"]``; inner contexts win."""
    with _entry("custom", {**(_state.current_meta.get("custom") or {}), **annotation_dict}):
        yield


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator: all that the function does happens inside ``annotate(annotation_dict)``."""
    return annotate(annotation_dict)


def _get_memory_budget_annotation(node: Node) -> float | None:
    custom = node.meta.get("custom")
    return custom.get(MEMORY_BUDGET_ANNOTATION_KEY) if isinstance(custom, dict) else None


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Enter a backward function of autograd: nodes created now belong to the forward operation ``seq_nr``."""
    if has_preserved_node_meta():
        _set_backward_functions([*_state.current_meta.get("grad_fn_seq_nr", ()), seq_nr])


def reset_grad_fn_seq_nr() -> None:
    """Leave the backward function entered last.

    Raises:
        AssertionError: there is none.
    """
    if not has_preserved_node_meta():
        return
    entered = _state.current_meta.get("grad_fn_seq_nr")
    if not entered:
        raise AssertionError("Expected current_level > 0, got 0")
    _set_backward_functions(entered[:-1])


def _set_backward_functions(numbers: list[int]) -> None:
    """``numbers`` are those of the backward functions that run, outermost first."""
    state = {"grad_fn_seq_nr": numbers, "in_grad_fn": len(numbers)}
    if numbers:
        _state.current_meta.update(state)
    else:
        for name in state:
            _state.current_meta.pop(name, None)


@contextmanager
def _set_autograd_backward(enable: bool = True) -> Iterator[None]:
    with _entry("autograd_backward", True if enable else None):
        yield


def _mark_autograd_backward() -> None:
    if has_preserved_node_meta():
        _state.current_meta["autograd_backward"] = True


def _reset_autograd_backward() -> None:
    if has_preserved_node_meta():
        _state.current_meta.pop("autograd_backward", None)


# Entries of the current metadata that a node takes over unchanged.
_INHERITED = (
    *("nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "from_node", "custom"),
    *("recompute", "ac_graph_id", "has_backward_hook", "quantization_tag", "_numeric_debug_handle", "partitioner_tag"),
)


def inherited() -> dict[str, Any]:
    """The metadata for a node that is created now, while metadata is preserved."""
    current, replayed = _state.current_meta, get_current_replay_node()
    found = {name: copy.copy(current[name]) for name in _INHERITED if name in current}
    if current.get("stack_trace"):
        found["stack_trace"] = current["stack_trace"]
    marks = {
        "is_gradient_acc": GRADIENT_ACC_SPECIAL_STACK in found.get("stack_trace", ""),
        "autograd_backward": current.get("autograd_backward", False),
        "is_functional_regenerated": replayed is not None,
    }
    found.update((name, True) for name, holds in marks.items() if holds)
    number = _sequence_number(current, replayed)
    if number is not None:
        found["seq_nr"] = number
    if replayed is not None and "custom" in replayed.meta:
        found["custom"] = replayed.meta["custom"]
    return found


def _sequence_number(current: dict[str, Any], replayed: Node | None) -> int | None:
    """The autograd sequence number that ties a forward operation to its backward."""
    preserving = _is_preserving_node_seq_nr()
    if replayed is not None and not preserving and "seq_nr" in replayed.meta:
        return replayed.meta["seq_nr"]
    if current.get("in_grad_fn", 0) > 0:
        return current["grad_fn_seq_nr"][-1]
    return current.get("seq_nr") if preserving else torch.autograd._get_sequence_nr() - 1


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Mark ``node`` as the one that is being regenerated; ``get_current_replay_node`` returns it."""
    with _setting(current_replay_node=node):
        yield


def get_current_replay_node() -> Node | None:
    """The node that is being regenerated, if any."""
    node: Any = _state.current_replay_node
    return node


@contextmanager
def _set_regional_inductor_subgraph_name(name: str | None) -> Iterator[None]:
    before = _get_regional_inductor_subgraph_name()
    _regional_inductor.name = name
    try:
        yield
    finally:
        _regional_inductor.name = before


def _get_regional_inductor_subgraph_name() -> str | None:
    return getattr(_regional_inductor, "name", None)


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """For each call of a function, by name, the nodes it came from; plain data."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", ())]
        for node in graph.nodes
        if node.op == "call_function"
    }


def _get_custom_metadata(gm: GraphModule) -> str:
    """The annotations of ``gm`` and its submodules, one ``(op, name, custom)`` a line."""
    graphs: list[Any] = [getattr(module, "graph", None) for module in gm.modules()]
    entries = [
        (node.op, node.name, node.meta.get("custom")) for graph in graphs for node in getattr(graph, "nodes", ())
    ]
    return "\n".join(str(entry) for entry in entries if entry[2])


def _get_ordered_seq_nr_groups(gm: GraphModule | list[GraphModule]) -> list[list[str]]:
    """Names of the nodes that share an autograd sequence number, groups in the order of the numbers."""
    modules = gm if isinstance(gm, list) else [gm]
    numbered = [(node.meta.get("seq_nr"), node.name) for module in modules for node in module.graph.nodes]
    ordered = sorted([pair for pair in numbered if pair[0] is not None and pair[0] >= 0], key=itemgetter(0))
    return [[name for _, name in group] for _, group in itertools.groupby(ordered, key=itemgetter(0))]
