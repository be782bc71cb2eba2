"""What finds the silent problems: at the probes while forward runs, and afterwards on the graph and the module."""

from collections.abc import Callable
from typing import Any

from fxlib.diagnosis.detectors import aliasing, answers, graph_checks, interface, module_state, surroundings

__all__ = ["AFTER", "AT_PROBES", "ON_GRAPH"]

#: kind of probe -> what to do with the value that comes by: ``detector(session, probe, value, place)``
AT_PROBES: dict[str, Callable[..., None]] = {**answers.AT_PROBES, **surroundings.AT_PROBES, **interface.AT_PROBES}

#: run once, after the last run: ``detector(session, state, problem_with_inputs)``. Those that look at the graph come
#: before those that trace again, which takes the graph's constants from the module.
AFTER: tuple[Callable[[Any, Any, Any], None], ...] = (
    *module_state.AFTER,
    *graph_checks.AFTER,
    *surroundings.AFTER,
    *aliasing.AFTER,
    *interface.AFTER,
)

#: those of `AFTER` that read one run: its graph, and what it did to the module
ON_GRAPH: tuple[Callable[[Any, Any, Any], None], ...] = (
    *module_state.AFTER,
    *graph_checks.AFTER,
    *surroundings.ON_GRAPH,
    *aliasing.AFTER,
    *interface.ON_GRAPH,
)
