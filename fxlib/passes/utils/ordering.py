"""Sorting by dependencies, with a say in which of several may come first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

__all__ = ["in_dependency_order"]

T = TypeVar("T", bound=Hashable)


def in_dependency_order(
    items: Collection[T],
    needs: Callable[[T], Iterable[T]],
    users: Callable[[T], Iterable[T]],
    rank: Callable[[T, int], int],
) -> list[T]:
    """``items``, each after those of them that it needs.

    Args:
        items: what to sort; what else is needed, or is a user, does not count.
        needs: what an item needs, each once.
        users: what needs an item.
        rank: given an item that may come next, and how many could before it: the lowest comes first. No two are equal.

    Returns:
        the items without those that need each other in a circle, or such ones.
    """
    missing = dict.fromkeys(items, 0)
    for item in items:
        missing[item] = sum(other in missing for other in needs(item))
    arrivals = itertools.count()
    ready = [(rank(item, next(arrivals)), item) for item, count in missing.items() if count == 0]
    heapq.heapify(ready)
    ordered: list[T] = []
    while ready:
        item = heapq.heappop(ready)[1]
        ordered.append(item)
        for user in users(item):
            if user in missing:
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready, (rank(user, next(arrivals)), user))
    return ordered
