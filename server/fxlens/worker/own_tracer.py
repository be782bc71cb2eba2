"""The tracer that a project names in its configuration: it decides what is captured, instead of torch.fx's."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fxlens.ipc.request import Tracer as Named


@dataclass
class OwnTracer:
    """A factory of tracers of that class."""

    name: str
    arguments: Mapping[str, object]
    _kind: Any = field(default=None, init=False, compare=False)

    def load(self) -> None:
        """Finds the class, after the file was imported, whose folders are searched.

        Raises errors of importing and constructing it, and TypeError if it is not a tracer."""
        if self._kind is not None:
            return
        module, _, path = self.name.partition(":")
        kind: Any = importlib.import_module(module)
        for part in path.split("."):
            kind = getattr(kind, part)
        made = kind(**self.arguments)
        if not callable(getattr(made, "trace", None)) or not callable(getattr(made, "is_leaf_module", None)):
            raise TypeError(f"{type(made).__name__} is not a tracer: it has no trace and is_leaf_module")
        self._kind = kind

    def __call__(self) -> Any:
        """A new tracer; torch.fx's if it cannot be used, which the trace job reports."""
        try:
            self.load()
            return self._kind(**self.arguments)
        except (Exception, SystemExit):
            from fxlib.capture.tracer import Tracer

            return Tracer()


def is_own(tracer: OwnTracer | None, leaf_modules: Collection[str]) -> bool:
    """Whether a project configures its own tracing, so that torch.fx's own trace does not apply."""
    return tracer is not None or bool(leaf_modules)


def graph_module(
    module: Any, inputs: Any, concrete: Any, tracer: OwnTracer | None = None, leaf_modules: Collection[str] = ()
) -> Any:
    """The traced module, by the project's tracer and with its leaf modules, if any.

    Raises errors of the trace, and RuntimeError with an error of the project's tracer."""
    import fxlib

    if not is_own(tracer, leaf_modules):
        return fxlib.symbolic_trace(module, concrete_args=concrete or None)
    if tracer is not None:
        tracer.load()
    report = fxlib.diagnose(module, inputs, concrete_args=concrete or None, leaf_modules=leaf_modules, tracer=tracer)
    if report.graph_module is None:
        raise RuntimeError(": ".join(report.error or ("no graph",)))
    return report.graph_module


def of(named: Named | None) -> OwnTracer | None:
    """The tracer of a job; None if its project has none."""
    return None if named is None else OwnTracer(named["name"], named["arguments"])
