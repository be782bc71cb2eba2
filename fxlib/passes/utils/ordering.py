"""Sorting by dependencies, with a say in which of several may come first."""

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
        items: what to sort; what else is needed, or is a user, does not count.
        needs: what an item needs, each once.
        users: what needs an item.
        rank: given an item that may come next, and how many could before it: the lowest comes first. No two are equal.

    Returns:
        the items without those that need each other in a circle, or such ones.
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
    """The rank by which those come first that are first in ``items``."""
    places = dict(zip(items, itertools.count(), strict=False))
    return lambda item, _: places[item]


def sorted_nodes(nodes: Iterable[Node], rank: Callable[[Node, int], int]) -> tuple[list[Node], list[Node]]:
    """``nodes`` by their dependencies and a rank, and those of them that depend on each other in a circle."""
    unsorted = list(nodes)
    ordered = in_dependency_order(unsorted, lambda node: node.all_input_nodes, lambda node: node.users, rank)
    placed = frozenset(ordered)
    return ordered, [node for node in unsorted if node not in placed]
