"""The next answers to try: for a condition that only data decides, and for a lookup by a traced value."""

from __future__ import annotations

from collections.abc import Mapping

from fxlib.ir.span import Span

__all__ = ["Choices"]

_ATTEMPTS = 2


class Choices:
    """The answers tried so far, over all runs.

    A run that fails is repeated with the same answers until it completes, so that everything on its path is found;
    `turn` then chooses others.
    """

    def __init__(self) -> None:
        self._outcomes: dict[Span, set[bool]] = {}
        self._ways: dict[Span, Mapping[Span, bool]] = {}
        self._attempts: dict[Span, int] = {}
        self._items: dict[int, int] = {}
        self._more: set[int] = set()

    def copy(self) -> Choices:
        """A copy for a run that is not part of the search."""
        other = Choices()
        other._outcomes = {key: set(seen) for key, seen in self._outcomes.items()}
        other._ways, other._attempts = dict(self._ways), dict(self._attempts)
        other._items, other._more = dict(self._items), set(self._more)
        return other

    def note(self, key: Span, answer: bool, way: Mapping[Span, bool]) -> None:
        """Record an answer; ``way`` holds the answers that led to the question."""
        self._ways.setdefault(key, dict(way))
        self._outcomes.setdefault(key, set()).add(answer)

    def settle(self, key: Span) -> None:
        """Record that there is no other answer to try."""
        self._outcomes[key] = {True, False}

    def item(self, number: int, count: int) -> int:
        """The index, of ``count``, that the lookup at cut ``number`` returns now."""
        turn = self._items.setdefault(number, 0)
        if turn + 1 < count:
            self._more.add(number)
        return min(turn, count - 1)

    def turn(self) -> Mapping[Span, bool] | None:
        """The answers for the next run: the opposite one for as many questions answered only one way as possible, and
        the next item of each lookup. None if everything was tried."""
        for number in self._more:
            self._items[number] += 1
        turned, self._more = bool(self._more), set()
        answers = self._others()
        return None if answers is None and not turned else answers or {}

    def _others(self) -> dict[Span, bool] | None:
        left = [key for key, seen in self._outcomes.items() if len(seen) < 2 and self._tries(key) < _ATTEMPTS]
        chosen: dict[Span, bool] = {}
        for key in sorted(left, key=lambda key: -self._tries(key)):
            # Keep the answers that led here; first without those to be changed too, which may not have been a
            # condition.
            again = self._tries(key) > 0
            way = {other: answer for other, answer in self._ways[key].items() if again or other not in left}
            wanted = {**way, key: not next(iter(self._outcomes[key]))}
            if all(chosen.get(other, answer) == answer for other, answer in wanted.items()):
                chosen.update(wanted)
                self._attempts[key] = self._tries(key) + 1
        return chosen if left else None

    def _tries(self, key: Span) -> int:
        return self._attempts.get(key, 0)
