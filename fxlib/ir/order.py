"""The order of the nodes in a graph: a ring of links, and labels that make ``a < b`` a comparison of two integers.

An appended node gets the last label plus ``GAP``. Most nodes are never compared, so one that is inserted elsewhere gets
no label: linking is a few assignments. The first comparison with an unlabelled node labels it and its unlabelled
neighbours: evenly between the labels around them, or in steps of ``GAP`` at either end of the graph. If no integers are
left between two labels, the smallest surrounding range that is sparse enough is spread out evenly (Bender, Cole,
Demaine, Farach-Colton, Zito: *Two Simplified Algorithms for Maintaining Order in a List*, 2002), so that any sequence
of n insertions, each followed by a comparison, costs O(n log n) in all, even at a single position.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxlib.ir.node import Node

GAP = 1 << 48
# A range of 2**i labels may hold up to (2 / 1.5)**i nodes before a wider one must be spread instead.
_CROWDING = 2 / 1.5


def link_before(anchor: "Node", node: "Node") -> None:
    """Insert a node that is in no ring right before ``anchor``."""
    before = anchor._prev
    before._next = anchor._prev = node
    node._prev = before
    node._next = anchor
    node._sort_key = None


def unlink(node: "Node") -> None:
    """Take a node out of the ring. It keeps its own links, so that an iteration that has reached it can continue."""
    before, after = node._prev, node._next
    before._next = after
    after._prev = before


def compare(a: "Node", b: Any, relation: Callable[[int, int], bool]) -> Any:
    """``relation`` of two nodes' labels, when one has no label yet or is not a node."""
    try:
        return relation(label(a), label(b))
    except AttributeError:
        return NotImplemented


def label(node: "Node") -> int:
    """The label of a node, assigned now if it has none."""
    if node._sort_key is None:
        if _is_out(node):
            node._sort_key = _former_label(node)
        else:
            _label_run(node)
    return node._sort_key  # type: ignore[return-value]


def _is_out(node: "Node") -> bool:
    """Whether a node was taken out of the ring."""
    return node._erased or node._prev._next is not node


def _former_label(node: "Node") -> int:
    """A label for a node that was erased before it got one: about its former position."""
    before = node._prev
    while before._sort_key is None and _is_out(before):
        before = before._prev
    if before._op != "root":
        return label(before)
    after = node._next
    while after._sort_key is None and _is_out(after):
        after = after._next
    return 0 if after._op == "root" else label(after) - 1


def _label_run(node: "Node") -> None:
    """Label ``node`` and the whole run of unlabelled nodes around it."""
    first = last = node
    count = 1
    before, after = first._prev, last._next
    while before._sort_key is None:
        first, before, count = before, before._prev, count + 1
    while after._sort_key is None:
        last, after, count = after, after._next, count + 1
    # The root always has a label, so both loops end there; the label itself means nothing.
    if after._op == "root":
        step = GAP
        position = GAP if before._op == "root" else before._sort_key + GAP  # type: ignore[operator]
    elif before._op == "root":
        step = GAP
        position = after._sort_key - count * GAP  # type: ignore[operator]
    else:
        low: int = before._sort_key  # type: ignore[assignment]
        step = (after._sort_key - low) // (count + 1)  # type: ignore[operator]
        position = low + step
    current = first
    for _ in range(count):
        current._sort_key = position
        position += step
        current = current._next
    if step == 0:
        _spread(first)


def _spread(node: "Node") -> None:
    """Relabel the nodes around ``node``, whose label equals its predecessor's."""
    first = last = node
    middle: int = node._sort_key  # type: ignore[assignment]
    count, width, capacity = 1, 1, 1.0
    while True:
        width *= 2
        capacity *= _CROWDING
        low = middle & -width
        high = low + width
        before = first._prev
        while before._op != "root" and ((key := before._sort_key) is None or key >= low):
            first, before, count = before, before._prev, count + 1
        after = last._next
        while after._op != "root" and ((key := after._sort_key) is None or key < high):
            last, after, count = after, after._next, count + 1
        if count < capacity and count < width:
            break
    step, rest = divmod(width, count)
    current, position = first, low
    for i in range(count):
        current._sort_key = position
        position += step + (i < rest)
        current = current._next
