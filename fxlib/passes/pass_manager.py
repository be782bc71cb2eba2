"""Running functions in a given order on any object; ``passes.infra.pass_manager`` runs passes on modules."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
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
    def wrapped_fn(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped_fn


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """Logs what a pass returns. Goes inside ``inplace_wrapper``, which replaces that."""

    @wraps(fn)
    def wrapped_fn(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped_fn


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[..., bool] | None = None) -> Pass:
    """Repeats a pass ``n_iter`` times, or while ``predicate`` of its result holds; exactly one has to be given."""
    if not ((n_iter is not None) ^ (predicate is not None)):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def new_pass(source: Any) -> Any:
        output = source
        if n_iter is not None and n_iter > 0:
            for _ in range(n_iter):
                output = base_pass(output)
        elif predicate is not None:
            while predicate(output):
                output = base_pass(output)
        else:
            raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate")
        return output

    return new_pass


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} "
                    f"but found {a} at index {i} and {b} at index{j} in pass list."
                )


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that ``this`` runs before ``that``."""

    def depends_on(a: Pass, b: Pass) -> bool:
        return a != that or b != this

    return depends_on


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The same for passes that were wrapped, as by ``loop_pass``: what they wrap is compared."""

    def depends_on(a: Pass, b: Pass) -> bool:
        return unwrap(a) != those or unwrap(b) != these

    return depends_on


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
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of these passes."""
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes the passes with these names."""
        self.passes = [entry for entry in self.passes if entry.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Puts ``_replacement`` where ``_target`` was."""
        self.passes = [_replacement if entry.__name__ == _target.__name__ else entry for entry in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raises RuntimeError when the passes violate a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """What the passes make of ``source``."""
        self.validate()
        for entry in self.passes:
            source = entry(source)
        return source
