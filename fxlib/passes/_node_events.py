"""A log of what a splitter decided about each node, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from torch._logging import trace_structured

from ..node import Node

__all__ = ["NodeEvent", "NodeEventTracker"]

TRACKER_DUMP_PATH = "_fx_net_tracker"
NODES_SUFFIX = "_nodes.txt"
ALL_SUFFIX = "_all.txt"
ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE = "FX_NET_ACC_SPLITTER_TRACKER_MODE"
ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH = "FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH"
ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES = "FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES"


class NodeEvent:
    """What happened to the node ``source``: ``desc`` is ``"kind|explanation"``, ``dep`` the node that caused it."""

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source = source
        self.desc = desc
        self.dep = dep

    def to_str(self) -> str:
        """``name: description cause``, with ``#`` where the node itself is the cause."""
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep else '#'}"


class NodeEventTracker:
    """Collects events by node.

    Args:
        tracker_mode: what ``dump`` writes to files: 0 nothing, 1 all events, 2 also the events of the nodes that the
            environment variable ``FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES`` lists (names, separated by commas)
            together with their causes, 3 the same for every node with more than one event.
        dump_prefix: the beginning of the files' paths.
    """

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode = tracker_mode
        self.dump_prefix = dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer: Callable[[str], Any] = print

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Notes an event; see ``NodeEvent``."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self, node_name: str, recursive: bool = False, tab: str = "", writer: Callable[[str], object] | None = None
    ) -> None:
        """Writes the events of one node, each after ``tab``; ``recursive`` adds those of the nodes that caused them."""
        write = writer or self.writer
        for event in self._events_of(node_name):
            write(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, recursive=True, tab="| " + tab, writer=write)

    def to_dict(self) -> dict[str, list[str]]:
        """The events' texts by node name."""
        return {name: [event.to_str() for event in self._events_of(name)] for name in self.node_events}

    def print_all(self, writer: Callable[[str], object] | None = None) -> None:
        """Writes all events, node by node."""
        write = writer or self.writer
        for name in self.node_events:
            write(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=write)

    def dump(self) -> None:
        """Hands the events to torch's structured log, and writes the files that ``tracker_mode`` asks for."""
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": "fx_net_acc_splitter_finder_events", "encoding": "json"},
            payload_fn=lambda: json.dumps(self.to_dict()),
        )
        if self.tracker_mode < 1:
            return
        with open(self.dump_prefix + ALL_SUFFIX, "w") as file:
            self.print_all(lambda line: file.write(line + "\n"))
        if self.tracker_mode == 2:
            chosen = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES, "").split(",")
        elif self.tracker_mode == 3:
            chosen = [name for name, events in self.node_events.items() if len(events) > 1]
        else:
            return
        with open(self.dump_prefix + NODES_SUFFIX, "w") as file:
            for name in chosen:
                file.write(f"===== Tracking node {name} =====\n")
                self.print_node(name, recursive=True, tab="|-", writer=lambda line: file.write(line + "\n"))
                file.write(f"===== End of tracking node {name} =====\n")

    def _events_of(self, name: str) -> list[NodeEvent]:
        return [self.events[index] for index in self.node_events.get(name, [])]
