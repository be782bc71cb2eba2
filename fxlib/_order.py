"""The order of the nodes in a graph: a ring of links, and labels that make ``a < b`` a comparison of two integers.

Appending labels a node in steps of ``GAP``; inserting takes the middle of its neighbours' labels. Where no integer is
left between two neighbours, the smallest surrounding range that is sparse enough is spread out evenly (Bender, Cole,
Demaine, Farach-Colton, Zito: *Two Simplified Algorithms for Maintaining Order in a List*, 2002), so that any sequence
of n insertions costs O(n log n) in all, also when they all go to one spot.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

GAP = 1 << 48
# A range of 2**i labels may hold up to (2 / 1.5)**i nodes before a wider one must be spread instead.
_CROWDING = 2 / 1.5


def link_before(anchor: "Node", node: "Node") -> None:
    """Put a node that is in no ring right before ``anchor``, and label it."""
    before = anchor._prev
    before._next = node
    anchor._prev = node
    node._prev = before
    node._next = anchor
    if anchor.op == "root":
        node._sort_key = before._sort_key + GAP if before.op != "root" else GAP
    elif before.op == "root":
        node._sort_key = anchor._sort_key - GAP
    else:
        low = before._sort_key
        middle = (low + anchor._sort_key) // 2
        node._sort_key = middle
        if middle == low:
            _spread(node)


def unlink(node: "Node") -> None:
    """Take a node out of the ring. It keeps its own links, so that an iteration standing on it goes on."""
    before, after = node._prev, node._next
    before._next = after
    after._prev = before


def _spread(node: "Node") -> None:
    """Relabel the nodes around ``node``, whose label equals its predecessor's."""
    first = last = node
    label = node._sort_key
    count, width, capacity = 1, 1, 1.0
    while True:
        width *= 2
        capacity *= _CROWDING
        low = label & -width
        high = low + width
        before = first._prev
        while before.op != "root" and before._sort_key >= low:
            first, before, count = before, before._prev, count + 1
        after = last._next
        while after.op != "root" and after._sort_key < high:
            last, after, count = after, after._next, count + 1
        if count < capacity and count < width:
            break
    step, rest = divmod(width, count)
    current, position = first, low
    for i in range(count):
        current._sort_key = position
        position += step + (i < rest)
        current = current._next
