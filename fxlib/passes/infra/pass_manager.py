"""Running passes in an order that satisfies constraints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from graphlib import CycleError, TopologicalSorter
from inspect import signature
from itertools import combinations, permutations
from typing import Any

from torch import nn

from fxlib.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that ``this`` runs before ``that``."""
    return lambda earlier, later: (earlier, later) != (that, this)


def _name_of(function: Pass) -> str:
    return getattr(function, "__name__", type(function).__name__)


def pass_result_wrapper(fn: Pass) -> Callable[..., PassResult | None]:
    """Makes a pass that returns a module, or nothing, return a ``PassResult`` saying that the module was changed."""
    if fn is None:
        return None  # type: ignore[unreachable]

    @wraps(fn)
    def wrapped(module: nn.Module) -> PassResult | None:
        return _as_result(fn(module), module)

    wrapped.__name__ = _name_of(fn)  # objects may lack a name
    return wrapped


def _as_result(made: object, given: nn.Module) -> PassResult | None:
    """The return value of a pass as a result: None means that it changed the module in place."""
    match made:
        case PassResult():
            return made
        case nn.Module():
            return PassResult(made, True)
        case None if isinstance(given, nn.Module):
            return PassResult(given, True)
    return None


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    if not constraints:
        return passes
    # By number, so that a pass may occur twice and need not be hashable.
    order: TopologicalSorter[int] = TopologicalSorter({number: () for number in range(len(passes))})
    for (i, a), (j, b) in permutations(enumerate(passes), 2):
        if a is not b and not all(constraint(a, b) for constraint in constraints):
            order.add(i, j)
    try:
        order.prepare()
    except CycleError as error:
        circle = [passes[number] for number in sorted(set(error.args[1]))]
        raise RuntimeError(f"Circular dependency detected within the following passes: {circle}") from error
    found: list[Pass] = []
    while ready := order.get_ready():
        found += [passes[number] for number in ready]
        order.done(*ready)
    return found


class PassManager:
    """Runs passes, sorted by constraints, until nothing changes.

    Args:
        passes: each takes a module and returns a ``PassResult`` (see ``pass_result_wrapper``).
        constraints: each takes two passes and returns false when the first must not come before the second.
        steps: how often the passes are run at most.
        run_checks_after_each_pass: call ``check`` after each.
        suppress_check_failures: not used; kept for compatibility.
    """

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[Callable[..., PassResult | None]] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        # Programs read and set these attributes, so their names and values are torch.fx's.
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or type(self).steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Callable[..., PassResult | None]) -> None:
        """Adds a pass at the end."""
        self.passes, self._validated = [*self.passes, _pass], False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints, self._validated = [*self.constraints, constraint], False

    def validate_constraints(self) -> None:
        """Raises RuntimeError when the passes, as they stand, violate a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                for (i, earlier), (j, later) in combinations(enumerate(self.passes), 2):
                    if not constraint(earlier, later):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {later} before {earlier} "
                            f"but found {earlier} at index {i} and {later} at index {j} in pass list."
                        )
            self._validated = True

    def solve_constraints(self) -> None:
        """Sorts the passes by the constraints; raises RuntimeError when they are circular."""
        self.passes, self._validated = _topological_sort_passes(self.passes, self.constraints), True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Replaces ``check``; raises TypeError unless it takes one argument."""
        if len(signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: nn.Module) -> None:
        """Raises if a module is not valid; does nothing unless overridden."""

    def __call__(self, module: nn.Module) -> PassResult:
        """Runs the passes on ``module``.

        Raises:
            Exception: a pass failed; the message names it and those that ran before, the cause is its exception.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        rounds = list(self._rounds(module))
        return PassResult(rounds[-1].graph_module if rounds else module, any(each.modified for each in rounds))

    def _rounds(self, module: nn.Module) -> Iterator[PassResult]:
        """Run all passes until nothing changes, but at most ``steps`` times."""
        for _ in range(self.steps):
            result = self._round(module)
            yield result
            if not result.modified:
                return
            module = result.graph_module

    def _round(self, module: nn.Module) -> PassResult:
        """Every pass once."""
        changed = False
        for number, run in enumerate(self.passes):
            try:
                module, modified = self._run(run, module)
            except Exception as error:
                done = list(map(_name_of, self.passes[:number]))
                raise Exception(
                    f"An error occurred when running the '{_name_of(run)}' pass after the following passes: {done}"
                ) from error
            changed = changed or bool(modified)
        return PassResult(module, changed)

    def _run(self, run: Pass, module: nn.Module) -> PassResult:
        logger.debug("Running pass '%s'", _name_of(run))
        result = run(module)
        if not isinstance(result, PassResult):
            raise TypeError(
                f"The result of the pass {_name_of(run)} should be type PassResult. "
                "Please wrap it with pass_result_wrapper()"
            )
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result
