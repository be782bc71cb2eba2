"""The receiver of one run's probes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.errors import swallowed
from fxlib.diagnosis.engine.probes import ENTRIES, Probe
from fxlib.diagnosis.engine.run import Run, guarded
from fxlib.diagnosis.engine.values import show

__all__ = ["AtProbe", "Listener"]

AtProbe = Callable[[Run, Probe, Any], None]
"""A detector that reads the value of an expression."""
_FLIPPED = frozenset({"training", "moment", "number"})
_ASKING = frozenset({"test", "iter", "star", "mapping", "unpack"})


class Listener:
    """Records reached code and deciding values, and passes each value to the detector of its kind."""

    def __init__(self, run: Run, detectors: Mapping[str, AtProbe]) -> None:
        self.run = run
        self.detectors = detectors
        self.probes = run.subject.instrumentation.probes

    def hear(self, index: int, value: Any) -> Any:
        """Handle a value. Returns the value that the rewritten code uses: the same, except for a flipped expression or
        a watched ``suppress``."""
        run = self.run
        if run.quiet:
            return value
        probe = self.probes[index]
        kind = probe.kind
        if kind in ENTRIES:
            run.reached.add((probe.code, id(probe.node), kind))
            if kind != "handler":
                return value
        elif kind == "return":
            if probe.code.co_name != "forward":  # the tracer calls submodules itself
                run.tracer.gives(value)
        elif isinstance(value, Proxy):
            if kind in _ASKING:
                run.asking = (probe, value)
        elif kind in ("test", "operand"):
            if index not in run.deciding:
                run.deciding[index] = show(value)
            return value
        elif kind in _FLIPPED and run.course.flipped and probe.span in run.course.flipped:
            return run.course.other(value)
        elif kind == "context" and isinstance(value, contextlib.suppress):
            return _WatchedSuppress(run, value)
        detector = self.detectors.get(kind)
        if detector is not None:
            guarded(detector, run, probe, value)
        return value


class _WatchedSuppress:
    """The user's ``contextlib.suppress``, recording the exceptions that it swallows."""

    def __init__(self, run: Run, suppress: Any) -> None:
        self.run, self.suppress = run, suppress

    def __enter__(self) -> None:
        return self.suppress.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        hidden = self.suppress.__exit__(kind, error, trace)
        if hidden and error is not None:
            swallowed(self.run, error)
        return hidden
