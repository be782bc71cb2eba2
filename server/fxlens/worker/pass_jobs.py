"""The job that shows what a pass makes of a model: both generated forwards, and how far their results are apart.

Runs in the user's interpreter, in a fresh process, like the other jobs of a whole model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import model_jobs

if TYPE_CHECKING:
    from .job import Job


def _fuse(gm: Any) -> Any:
    from fxlib.passes.fuse_conv_bn import fuse_conv_bn

    return fuse_conv_bn(gm)


def _dropout(gm: Any) -> Any:
    from fxlib.passes.dropout import remove_dropout

    return remove_dropout(gm)


def _dead_code(gm: Any) -> Any:
    from fxlib.passes.dead_code import eliminate_dead_code

    return eliminate_dead_code(gm)


def _common(gm: Any) -> Any:
    from fxlib.passes.cse import eliminate_common_subexpressions

    return eliminate_common_subexpressions(gm)


PASSES: dict[str, Callable[[Any], Any]] = {
    "fuse": _fuse,
    "dropout": _dropout,
    "dead-code": _dead_code,
    "common": _common,
}


def apply(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The forward before and after ``options["pass"]``; ``options["out"]`` is a folder to save the new model in."""
    import torch

    name = options.get("pass")
    if name not in PASSES:
        raise model_jobs.Refused(f"there is no pass {name!r}; known are {', '.join(PASSES)}")
    module, inputs, concrete, target = model_jobs._model(job, real=True)
    gm = model_jobs._traced(module, concrete, target.name)
    before, nodes = gm.code.lstrip("\n"), len(gm.graph.nodes)
    with torch.no_grad():
        expected = gm(*inputs)
        changed = PASSES[name](gm)
        error = _difference(expected, changed(*inputs))
    report = changed.meta.get("fuse_conv_bn")
    refused = [] if report is None else [f"{each.norm}: {each.reason}" for each in report.refused]
    if options.get("out"):
        changed.to_folder(options["out"], target.name)
    return {
        "target": target.name, "before": before, "after": changed.code.lstrip("\n"), "error": error,
        "nodes": [nodes, len(changed.graph.nodes)], "refused": refused,
    }  # fmt: skip


def _difference(expected: Any, given: Any) -> float | None:
    """The largest relative difference of two results (2-norms); None where they are no tensors."""
    import torch
    from torch.utils import _pytree as pytree

    pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(given), strict=True)
    found = [
        float((one.double() - two.double()).norm() / one.double().norm().clamp_min(1e-30))
        for one, two in pairs
        if isinstance(one, torch.Tensor)
    ]
    return max(found, default=None)


KINDS = {"pass": model_jobs._job(apply)}
