"""The detectors of silent problems: at probes while forward runs, and afterwards on the graph and the module."""

import ast
from collections.abc import Callable, Mapping

from fxlib.diagnosis.detectors import (
    aliasing,
    answers,
    buffers,
    comparisons,
    dtypes,
    gradients,
    graph_checks,
    interface,
    keys,
    modes,
    module_state,
    moments,
    opaque,
    own_state,
    shared_state,
    surroundings,
    unwritten,
)
from fxlib.diagnosis.engine import probes
from fxlib.diagnosis.engine.listener import AtProbe
from fxlib.diagnosis.engine.probes import Looker, Lookers
from fxlib.diagnosis.engine.search import Search

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]

_AT_PROBES = (answers, keys, surroundings, comparisons, interface, modes, moments, gradients, buffers)


def _joined(tables: list[Lookers]) -> Lookers:
    found: dict[type[ast.AST], list[Looker]] = {}
    for table in tables:
        for kind, lookers in table.items():
            found.setdefault(kind, []).extend(lookers)
    return found


#: kind of probe -> ``detector(run, probe, value)``
AT_PROBES: Mapping[str, AtProbe] = {kind: each for module in _AT_PROBES for kind, each in module.AT_PROBES.items()}

#: the expressions with probes
LOOKERS = _joined([probes.LOOKERS, *(module.LOOKERS for module in _AT_PROBES)])

#: read the best run of a search, and the changes of the module in the last one: ``detector(search)``
ON_GRAPH: tuple[Callable[[Search], None], ...] = (
    *module_state.ON_GRAPH,
    *buffers.ON_GRAPH,
    *graph_checks.ON_GRAPH,
    *opaque.ON_GRAPH,
    *surroundings.ON_GRAPH,
    *aliasing.ON_GRAPH,
    *interface.ON_GRAPH,
    *gradients.ON_GRAPH,
    *unwritten.ON_GRAPH,
)

#: run once, after those: they trace again, which removes the graph's constants from the module
LAST: tuple[Callable[[Search], None], ...] = (
    *shared_state.LAST,  # first: it reads what the last trace has changed, which the others restore
    *surroundings.LAST,
    *moments.LAST,
    *buffers.LAST,
    *comparisons.LAST,
    *modes.LAST,
    *own_state.LAST,
    *dtypes.LAST,
    *interface.LAST,
)
