"""Sorting by dependencies, with a rank for items that may come in any order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TypeVar

from fxlib.ir.node import Node

__all__ = ["as_given", "in_dependency_order", "sorted_nodes"]

T = TypeVar("T", bound=Hashable)


def in_dependency_order(
    items: Collection[T],
    needs: Callable[[T], Iterable[T]],
    users: Callable[[T], Iterable[T]],
    rank: Callable[[T, int], int],
) -> list[T]:
    """``items``, each after those of them that it needs.

    Args:
        items: what to sort; dependencies and users outside of it are ignored.
        needs: the dependencies of an item, each once.
        users: the users of an item.
        rank: called with an item that may come next and the number of those before it; the lowest result comes first.
            No two may be equal.

    Returns:
        the items without those in a cycle, or that depend on one.
    """
    awaited = dict.fromkeys(items, 0)
    for item in awaited:
        awaited[item] = sum(map(awaited.__contains__, needs(item)))
    arrivals = itertools.count()
    ready: list[tuple[int, T]] = []

    def arrive(arrived: Iterable[T]) -> None:
        for item in arrived:
            if not awaited[item]:
                heapq.heappush(ready, (rank(item, next(arrivals)), item))

    arrive(awaited)
    ordered: list[T] = []
    while ready:
        _, item = heapq.heappop(ready)
        ordered.append(item)
        arrive(_one_less(awaited, users(item)))
    return ordered


def _one_less(awaited: dict[T, int], users: Iterable[T]) -> Iterator[T]:
    for user in filter(awaited.__contains__, users):
        awaited[user] -= 1
        yield user


def as_given(items: Iterable[T]) -> Callable[[T, int], int]:
    """The rank that keeps the order of ``items``."""
    places = dict(zip(items, itertools.count(), strict=False))
    return lambda item, _: places[item]


def sorted_nodes(nodes: Iterable[Node], rank: Callable[[Node, int], int]) -> tuple[list[Node], list[Node]]:
    """``nodes`` sorted by dependencies and a rank, and those that are in a cycle."""
    unsorted = list(nodes)
    ordered = in_dependency_order(unsorted, lambda node: node.all_input_nodes, lambda node: node.users, rank)
    placed = frozenset(ordered)
    return ordered, [node for node in unsorted if node not in placed]
