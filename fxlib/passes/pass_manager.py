"""Running functions in a given order on any object; ``passes.infra.pass_manager`` runs passes on modules."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import reduce, wraps
from inspect import unwrap
from itertools import combinations, count
from typing import Any

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def inplace_wrapper(fn: Pass) -> Pass:
    """Makes a pass that changes its argument return the argument."""

    @wraps(fn)
    def returning_its_argument(gm: Any) -> Any:
        fn(gm)
        return gm

    return returning_its_argument


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """Logs what a pass returns. Goes inside ``inplace_wrapper``, which replaces that."""

    @wraps(fn)
    def logged(gm: Any) -> Any:
        logger.log(level, "%s", made := fn(gm))
        return made

    return logged


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[..., bool] | None = None) -> Pass:
    """Repeats a pass ``n_iter`` times, or while ``predicate`` of its result holds; exactly one has to be given."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")
    if n_iter is not None and n_iter < 1:
        raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate")

    @wraps(base_pass)
    def repeated(value: Any) -> Any:
        rounds = count() if n_iter is None else range(n_iter)
        for _ in rounds:
            if predicate is not None and not predicate(value):
                break
            value = base_pass(value)
        return value

    return repeated


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for (i, earlier), (j, later) in combinations(enumerate(passes), 2):
        if not constraint(earlier, later):
            raise RuntimeError(
                f"pass schedule constraint violated. Expected {later} before {earlier} "
                f"but found {earlier} at index {i} and {later} at index {j} in pass list."
            )


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that ``this`` runs before ``that``."""
    return lambda earlier, later: (earlier, later) != (that, this)


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The same for passes that were wrapped, as by ``loop_pass``: what they wrap is compared."""
    inner = this_before_that_pass_constraint(unwrap(these), unwrap(those))
    return lambda earlier, later: inner(unwrap(earlier), unwrap(later))


class PassManager:
    """Runs passes in the order given, after checking it against constraints.

    Args:
        passes: each takes an object and returns one.
        constraints: each takes two passes and returns false when the first must not come before the second.
    """

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None) -> None:
        self.passes = [] if passes is None else passes
        self.constraints = [] if constraints is None else constraints

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of these passes."""
        return cls(passes=passes)

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass at the end."""
        self._change([*self.passes, _pass])

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints = [*self.constraints, constraint]
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes the passes with these names."""
        self._change([each for each in self.passes if each.__name__ not in _passes])

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Puts ``_replacement`` where ``_target`` was."""
        self._change([_replacement if each is _target else each for each in self.passes])

    def _change(self, passes: list[Pass]) -> None:
        self.passes = passes
        self._validated = False

    def validate(self) -> None:
        """Raises RuntimeError when the passes violate a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """What the passes make of ``source``."""
        self.validate()
        return reduce(lambda value, run: run(value), self.passes, source)
