"""Running passes in an order that satisfies constraints."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn

from ...graph_module import GraphModule
from ..pass_manager import Constraint, Pass, _validate_pass_schedule_constraint, this_before_that_pass_constraint
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)


def _name_of(function: Pass) -> str:
    return function.__name__ if inspect.isfunction(function) else type(function).__name__


def pass_result_wrapper(fn: Pass) -> Callable[..., PassResult | None]:
    """Makes a pass that returns a module, or nothing, return a ``PassResult`` saying that the module was changed."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped_fn(gm: Any) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        return PassResult(result, True) if isinstance(result, nn.Module) else None

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    if not constraints:
        return passes
    followers: dict[Pass, list[Pass]] = {entry: [] for entry in passes}
    missing = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            if a == b:
                continue
            for constraint in constraints:
                if not constraint(a, b):
                    followers[b].append(a)
                    missing[a] += 1
    ready = deque(entry for entry in passes if missing[entry] == 0)
    ordered: list[Pass] = []
    while ready:
        entry = ready.popleft()
        ordered.append(entry)
        for follower in followers[entry]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    circular = [entry for entry in missing if missing[entry] != 0]
    if circular:
        raise RuntimeError(f"Circular dependency detected within the following passes: {circular}")
    return ordered


class PassManager:
    """Runs passes, sorted by constraints, until nothing changes.

    Args:
        passes: each takes a module and returns a ``PassResult`` (see ``pass_result_wrapper``).
        constraints: each takes two passes and returns false when the first must not come before the second.
        steps: how often the passes are run at most.
        run_checks_after_each_pass: call ``check`` after each.
        suppress_check_failures: kept for callers that pass it.
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
        self.passes = passes or []
        self.constraints = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Callable[..., PassResult | None]) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises RuntimeError when the passes, as they stand, violate a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Sorts the passes by the constraints; raises RuntimeError when they are circular."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Replaces ``check``; raises TypeError unless it takes one argument."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        setattr(self, "check", check)  # noqa: B010

    def check(self, module: nn.Module) -> None:
        """Raises when a module is not as it should be; does nothing unless overridden."""

    def __call__(self, module: nn.Module) -> PassResult:
        """Runs the passes on ``module``.

        Raises:
            Exception: a pass failed; the message names it and those that ran before, the cause is its exception.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            changed_now = False
            for i, function in enumerate(self.passes):
                name = _name_of(function)
                logger.debug("Running pass '%s'", name)
                try:
                    result = function(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(
                            f"The result of the pass {name} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()"
                        )
                    module = result.graph_module
                    changed_now = changed_now or result.modified
                    if isinstance(module, GraphModule):
                        module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    before = [_name_of(entry) for entry in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{name}' pass after the following passes: {before}"
                    ) from error
            changed = changed or changed_now
            if not changed_now:
                break
        return PassResult(module, changed)
