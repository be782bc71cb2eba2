"""Where a node came from when a transform made it from another one."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxlib.ir.node import Node

__all__ = ["NodeSource", "NodeSourceAction"]


class NodeSourceAction(Enum):
    """How a node came from its source."""

    CREATE = "create"
    REPLACE = "replace"


@dataclass
class _NodeInfo:
    """What identifies the source after its graph is gone."""

    name: str = ""
    target: str = ""
    graph_id: int = -1


_UNKNOWN = _NodeInfo()


class NodeSource:
    """Where a node came from: ``b.meta["from_node"]`` holds ``NodeSource(a)`` when ``b`` was made from ``a``.

    Args:
        node: the source; ``None`` if it is not a node.
        pass_name: the transform that made the new node.
        action: what it did: one action or several.
    """

    NodeInfo = _NodeInfo

    def __init__(
        self,
        node: Node | None,
        pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        self.node_info = None if node is None else _NodeInfo(node.name, str(node.target), id(node.graph))
        self.from_node: list[NodeSource] = [] if node is None else copy.deepcopy(node.meta.get("from_node", []))
        self.pass_name = pass_name
        self.action = [action] if isinstance(action, NodeSourceAction) else action or []

    @property
    def name(self) -> str:
        return (self.node_info or _UNKNOWN).name

    @property
    def target(self) -> str:
        return (self.node_info or _UNKNOWN).target

    @property
    def graph_id(self) -> int:
        return (self.node_info or _UNKNOWN).graph_id

    def _get_action_string(self) -> str:
        return "+".join(action.value for action in self.action)

    def print_readable(self, indent: int = 0) -> str:
        """This source and its own sources, one a line, each four spaces deeper. ``indent`` counts such steps."""
        facts = ("name", self.name), ("pass_name", self.pass_name), ("action", self._get_action_string())
        shown = ", ".join(f"{fact}={value}" for fact, value in (*facts, ("graph_id", self.graph_id)))
        deeper = [source.print_readable(indent + 1) for source in self.from_node]
        return "".join([f"{'    ' * indent}({shown})\n", *deeper])

    def __repr__(self) -> str:
        return self.print_readable()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: ``name``, ``target``, ``graph_id``, ``pass_name``, ``action``, ``from_node``."""
        return {**self._facts(), "from_node": [source.to_dict() for source in self.from_node]}

    def _facts(self) -> dict[str, str | int]:
        return {
            **vars(self.node_info or _UNKNOWN),
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
        }

    @classmethod
    def _from_dict(cls, d: Mapping[str, Any] | None) -> NodeSource | None:
        """The source from the form that `to_dict` writes; missing entries get the values of a source without a node."""
        if d is None:
            return None
        made = cls(
            None, d.get("pass_name", ""), list(map(NodeSourceAction, filter(None, d.get("action", "").split("+"))))
        )
        info = _NodeInfo(**{field: d[field] for field in vars(_UNKNOWN) if field in d})
        made.node_info = None if info == _UNKNOWN else info
        made.from_node = list(filter(None, map(cls._from_dict, d.get("from_node", ()))))
        return made

    def _key(self) -> tuple[Hashable, ...]:
        return (*self._facts().values(), *(source._key() for source in self.from_node))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
