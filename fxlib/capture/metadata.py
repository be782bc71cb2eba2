"""What is known about a node before it exists: metadata that nodes created from here on receive.

``preserve_node_meta`` switches copying on, ``set_current_meta`` says which node is being replayed, ``annotate`` adds
metadata of the user's own. The state is one per process and shared with torch's tracers (see ``interop``), so that
annotations reach graphs captured by ``torch.export`` and ``make_fx`` too.
"""

from __future__ import annotations

import copy
import functools
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import ParamSpec

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


def __getattr__(name: str) -> Any:
    # These are the state itself, which is rebound while contexts are entered and left.
    if name in {"current_meta", "should_preserve_node_meta", "_should_preserve_node_meta", "current_replay_node"}:
        return getattr(_state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def _setting(**values: Any) -> Iterator[None]:
    """The shared state with ``values`` set, and put back on leaving."""
    saved = {name: getattr(_state, name) for name in values}
    for name, value in values.items():
        setattr(_state, name, value)
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(_state, name, value)


def _register_fx_metadata(module_name: str, metadata: dict[str, Any]) -> None:
    """Keeps ``metadata`` of the generated module ``module_name`` for tools such as the profiler."""
    _FX_METADATA_REGISTRY[module_name] = metadata


class NodeSourceAction(Enum):
    """How a node came from its source."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node came from: ``b.meta["from_node"]`` holds ``NodeSource(a)`` when ``b`` was made from ``a``.

    Args:
        node: the source; ``None`` for something that no node stands for.
        pass_name: the transform that made the new node.
        action: what it did, one or several.
    """

    class NodeInfo:
        """What identifies the source after its graph is gone."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name = name
            self.target = target
            self.graph_id = graph_id

    def __init__(
        self,
        node: Node | None,
        pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        self.pass_name = pass_name
        self.action = action if isinstance(action, list) else [] if action is None else [action]
        self.node_info: NodeSource.NodeInfo | None = None
        self.from_node: list[NodeSource] = []
        if node is not None:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta["from_node"]) if "from_node" in node.meta else []
        self._dict: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(action.name.lower() for action in self.action)

    def print_readable(self, indent: int = 0) -> str:
        """This source and its own sources, one a line, each four spaces deeper. ``indent`` counts such steps."""
        lines = [
            f"{' ' * 4 * indent}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        ]
        lines += [source.print_readable(indent + 1) for source in self.from_node]
        return "".join(lines)

    def __repr__(self) -> str:
        return self.print_readable()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: ``name``, ``target``, ``graph_id``, ``pass_name``, ``action``, ``from_node``."""
        if self._dict is None:
            self._dict = {
                "name": self.name,
                "target": self.target,
                "graph_id": self.graph_id,
                "pass_name": self.pass_name,
                "action": self._get_action_string(),
                "from_node": [source.to_dict() for source in self.from_node],
            }
        return self._dict

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        if d is None:
            return None
        words = d.get("action", "")
        source = cls(None, d.get("pass_name", ""), [NodeSourceAction(word) for word in words.split("+") if word])
        if d.get("name") or d.get("target") or d.get("graph_id", -1) != -1:
            source.node_info = cls.NodeInfo(d.get("name", ""), d.get("target", ""), d.get("graph_id", -1))
        source.from_node = [inner for entry in d.get("from_node", ()) if (inner := cls._from_dict(entry)) is not None]
        return source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        def frozen(value: Any) -> Any:
            if isinstance(value, dict):
                return tuple(sorted((key, frozen(inner)) for key, inner in value.items()))
            return tuple(frozen(inner) for inner in value) if isinstance(value, list) else value

        return hash(frozen(self.to_dict()))


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Nodes created inside get the current metadata; what was current is put back on leaving."""
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
    """While ``node`` is replayed: its metadata, and where it came from, are current.

    Without effect outside ``preserve_node_meta`` and for a node without metadata.
    """
    if not (_state.should_preserve_node_meta and node.meta):
        yield
        return
    meta = node.meta.copy()
    meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    with _setting(current_meta=meta):
        yield


def set_stack_trace(stack: list[str]) -> None:
    """Makes ``stack`` the stack trace of nodes created from now on."""
    if _state.should_preserve_node_meta and stack:
        _state.current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The stack trace that is current, or, when none is preserved, the one of the caller."""
    if _state.should_preserve_node_meta:
        return [_state.current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Nodes captured inside carry ``annotation_dict`` in ``node.meta["custom"]``; inner contexts win."""
    meta = _state.current_meta
    outer = meta.get("custom")
    meta["custom"] = {**(outer or {}), **dict(annotation_dict)}
    try:
        yield
    finally:
        if outer is None:
            meta.pop("custom", None)
        else:
            meta["custom"] = outer


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator: all that the function does happens inside ``annotate(annotation_dict)``."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def annotated(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def _get_memory_budget_annotation(node: Node) -> float | None:
    custom = node.meta.get("custom")
    return custom.get(MEMORY_BUDGET_ANNOTATION_KEY) if isinstance(custom, dict) else None


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Entering a backward function of autograd: nodes created now belong to the forward operation ``seq_nr``."""
    if _state.should_preserve_node_meta:
        meta = _state.current_meta
        meta["grad_fn_seq_nr"] = [*meta.get("grad_fn_seq_nr", ()), seq_nr]
        meta["in_grad_fn"] = meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Leaving the backward function entered last."""
    if _state.should_preserve_node_meta:
        meta = _state.current_meta
        level = meta.get("in_grad_fn", 0)
        if level <= 0:
            raise AssertionError(f"Expected current_level > 0, got {level}")
        if level == 1:
            del meta["in_grad_fn"], meta["grad_fn_seq_nr"]
        else:
            meta["in_grad_fn"] = level - 1
            meta["grad_fn_seq_nr"] = meta["grad_fn_seq_nr"][:-1]


@contextmanager
def _set_autograd_backward(enable: bool = True) -> Iterator[None]:
    meta = _state.current_meta
    before = meta.get("autograd_backward")
    if enable:
        meta["autograd_backward"] = True
    try:
        yield
    finally:
        if before is None:
            meta.pop("autograd_backward", None)
        else:
            meta["autograd_backward"] = before


def _mark_autograd_backward() -> None:
    if _state.should_preserve_node_meta:
        _state.current_meta["autograd_backward"] = True


def _reset_autograd_backward() -> None:
    if _state.should_preserve_node_meta:
        _state.current_meta.pop("autograd_backward", None)


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """While another tracer regenerates ``node``: ``get_current_replay_node`` answers it."""
    with _setting(current_replay_node=node):
        yield


def get_current_replay_node() -> Node | None:
    """The node that is being regenerated, if any."""
    return _state.current_replay_node  # type: ignore[return-value]


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
    lines = []
    for module in gm.modules():
        if hasattr(module, "graph") and hasattr(module.graph, "nodes"):
            for node in module.graph.nodes:
                if node.meta.get("custom"):
                    lines.append(str((node.op, node.name, node.meta["custom"])))
    return "\n".join(lines)


def _get_ordered_seq_nr_groups(gm: GraphModule | list[GraphModule]) -> list[list[str]]:
    """Names of the nodes that share an autograd sequence number, groups in the order of the numbers."""
    groups: dict[int, list[str]] = defaultdict(list)
    for module in gm if isinstance(gm, list) else [gm]:
        for node in module.graph.nodes:
            number = node.meta.get("seq_nr")
            if number is not None and number >= 0:
                groups[number].append(node.name)
    return [groups[number] for number in sorted(groups)]
