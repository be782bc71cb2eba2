"""The result of torch.fx for a model, for an assertion."""

from __future__ import annotations

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

    return fxlib.compare(model, inputs)


def _difference(model: Any, graph_module: Any, inputs: Any) -> str:
    """How the results of the model and of its graph differ; empty if they agree."""
    import torch

    from fxlib.diagnosis.engine.inputs import normalise
    from fxlib.diagnosis.fixes import compare
    from fxlib.ir.modules import copy_of

    args, kwargs = normalise(inputs) or ((), {})
    copied = copy_of(model) if isinstance(model, torch.nn.Module) else model
    eager = compare.run(copied, args, kwargs, "", gradients=False)
    if eager.error is not None:
        return f"the model itself raises {eager.error} on these inputs"
    traced = compare.run(copy_of(graph_module), args, kwargs, "", gradients=False)
    if traced.error is not None:
        return f"the graph of torch.fx raises {traced.error} where the model does not"
    same, _, what = compare.agree(eager, traced)
    return "" if same else f"the graph of torch.fx gives another result than the model: {what}"
