"""A project's tracing configuration, for assertions that do not override it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fxlens.config.project import Project


def tracing(
    leaf_modules: Iterable[str] | None, tracer: Callable[[], Any] | None
) -> tuple[Iterable[str], Callable[[], Any] | None]:
    """The leaf modules, and a factory of tracers; None for torch.fx's own. Errors of importing the tracer are raised
    unchanged."""
    from fxlens.worker import own_tracer

    project = Project.read(os.getcwd())
    for problem in project.problems:
        warnings.warn(problem)
    if tracer is None and (own := own_tracer.of(project.tracer)) is not None:
        own.load()
        tracer = own
    return project.leaf_modules if leaf_modules is None else leaf_modules, tracer
