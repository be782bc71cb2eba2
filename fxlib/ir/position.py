"""The position of a node in its graph: moving it, and comparing two. The functions are methods of ``Node``."""

import logging
import operator
from typing import TYPE_CHECKING

from fxlib.ir.order import compare, link_before

if TYPE_CHECKING:
    from fxlib.ir.node import Node

__all__ = ["append", "greater", "greater_or_equal", "less", "less_or_equal", "prepend"]

log = logging.getLogger("fxlib.node")


def prepend(self: "Node", x: "Node") -> None:
    """Move (or insert) ``x`` right before this node.

    Raises:
        AssertionError: ``x`` belongs to another graph.
    """
    if self.graph is not x.graph:
        raise AssertionError("Attempting to move a Node into a different Graph")
    if self is x:
        log.debug("Trying to prepend a node to itself. This behavior has no effect on the graph.")
        return
    before, after = x._prev, x._next
    before._next = after
    after._prev = before
    link_before(self, x)


def append(self: "Node", x: "Node") -> None:
    """Move (or insert) ``x`` right after this node.

    Raises:
        AssertionError: ``x`` belongs to another graph.
    """
    if self is x:
        return
    follower = self._next
    if self.graph is not x.graph or follower is x:
        prepend(follower, x)  # raises the right error
        return
    # ``prepend`` to the next node, inlined: passes that sort a graph call this for every node.
    before, after = x._prev, x._next
    before._next = after
    after._prev = before
    self._next = follower._prev = x
    x._prev = self
    x._next = follower
    x._sort_key = None


# try/except: comparisons are hot, while unlabelled nodes and mistakes are rare.


def less(self: "Node", other: "Node") -> bool:
    try:
        return self._sort_key < other._sort_key  # type: ignore[operator]
    except (TypeError, AttributeError):
        return compare(self, other, operator.lt)


def greater(self: "Node", other: "Node") -> bool:
    try:
        return self._sort_key > other._sort_key  # type: ignore[operator]
    except (TypeError, AttributeError):
        return compare(self, other, operator.gt)


def less_or_equal(self: "Node", other: "Node") -> bool:
    try:
        return self._sort_key <= other._sort_key  # type: ignore[operator]
    except (TypeError, AttributeError):
        return compare(self, other, operator.le)


def greater_or_equal(self: "Node", other: "Node") -> bool:
    try:
        return self._sort_key >= other._sort_key  # type: ignore[operator]
    except (TypeError, AttributeError):
        return compare(self, other, operator.ge)
