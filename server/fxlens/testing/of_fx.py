"""The result of torch.fx for a model, for an assertion."""

from __future__ import annotations

import contextlib
from typing import Any


def judge(model: Any, inputs: Any, report: Any) -> tuple[str, list[Any]]:
    """Why the model fails, in a few words (empty if it does not), and the findings that explain it.

    ``report`` is that of `fxlib.diagnose`.
    """
    if not report.traces:
        raised = f": {': '.join(report.error)}" if report.error else ""
        return f"torch.fx does not trace it{raised}", [each for each in report.findings if each.loud]
    difference = _difference(model, report.graph_module, inputs)
    if not difference:
        return "", []
    # A silent difference has a finding that explains it, or else one at the place where the runs diverge.
    silent = [each for each in report.findings if each.severity in ("error", "warning")]
    parting = None if silent or not hasattr(model, "modules") else _parting(model, inputs)
    return difference, [*report.findings, *([parting] if parting else [])]


def _parting(model: Any, inputs: Any) -> Any:
    import fxlib
    from fxlib.diagnosis.comparison.compare import CannotCopy

    with contextlib.suppress(CannotCopy):
        return fxlib.compare(model, inputs)


def _difference(model: Any, graph_module: Any, inputs: Any) -> str:
    """How the results of the model and of its graph differ; empty if they agree."""
    from fxlib.diagnosis.engine.inputs import normalise
    from fxlib.diagnosis.fixes import compare

    args, kwargs = normalise(inputs) or ((), {})
    eager = _run(model, args, kwargs)
    if eager.error is not None:
        return f"the model itself raises {eager.error} on these inputs"
    traced = _run(graph_module, args, kwargs)
    if traced.error is not None:
        return f"the graph of torch.fx raises {traced.error} where the model does not"
    same, _, what = compare.agree(eager, traced)
    return "" if same else f"the graph of torch.fx gives another result than the model: {what}"


def _run(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outcome of a call of a copy. Modules that refuse to be copied are as before afterwards."""
    import torch

    from fxlib.captures.isolation import restored
    from fxlib.diagnosis.fixes import compare
    from fxlib.ir.copies import whole_copy
    from fxlib.ir.modules import data_kept

    copied, shared = whole_copy(model) if isinstance(model, torch.nn.Module) else (model, [])
    with contextlib.ExitStack() as kept:
        for each in shared:
            if isinstance(each, torch.nn.Module):
                kept.enter_context(data_kept(each, parameters=True))
                kept.enter_context(restored(each))
        return compare.run(copied, args, kwargs, "", gradients=False)
