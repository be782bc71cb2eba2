"""The job that finds what an engine could not take: each traced model is judged in evaluation mode, nothing is built.

Runs in the user's interpreter: standard library, torch and fxlib; onnx_ir where it is installed, else a note says so.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from fxlens.sources import targets as text_targets
from fxlens.sources.targets import Source

from . import construct, render, user_file

if TYPE_CHECKING:
    from .job import Job

_CHECK = "fxlib.lowering.obstacles"
_MISSING = "what an engine could not take (FX4) was not looked for; `pip install 'fxlens[lower]'` adds it"


def check(job: Job) -> None:
    """Sends ``{"event": "lowering", "target", "findings"}`` for each model of the message.

    The message's targets say how each was constructed and what it was called with.
    """
    if importlib.util.find_spec("onnx_ir") is None:
        job.channel.send({"event": "lowering_note", "text": f"{sys.executable} has no onnx_ir: {_MISSING}"})
        return
    known = frozenset(sys.modules)
    described = {target["name"]: target for target in job.message["targets"]}
    tree = ast.parse(job.text)
    job.step("import")
    namespace = user_file.load(job.path, job.text, job.message.get("folder"), job.message.get("overlays") or {}, tree)
    for target in text_targets.find(tree, job.text):
        if target.name not in described:
            continue
        told = described[target.name]
        target.construct = [Source(**told["construct"])]
        target.inputs = [Source(**told["inputs"])]
        job.step("check", target)
        job.channel.send({"event": "lowering", "target": target.name, "findings": _findings(namespace, target)})
    _, packages = user_file.imported_files(known, job.message.get("folder"), job.path)
    if _CHECK in sys.modules and _CHECK not in known:
        packages.append(_CHECK)
    job.channel.send({"event": "end", "third_party": packages})


def _findings(namespace: Any, target: Any) -> list[dict[str, Any]]:
    from fxlib.diagnosis.report import Finding
    from fxlib.lowering.obstacles import check as obstacles

    try:
        made = construct.make(namespace, target)
        inputs = construct.make_inputs(namespace, target, made)
        if inputs is None or inputs.values is None:
            return []
        found = obstacles(made.module, inputs.values, concrete_args=inputs.concrete)
    except Exception:
        return []  # what raises here is told by the trace; lowering has nothing to add
    # What stays only because something before it does is in the report of a lowering, not in the margin.
    return [
        render.finding(
            Finding(
                each.code, "hint", f"`{each.target}` stays in PyTorch when {target.name} is lowered: {each.reason}",
                each.span, call_path=each.call_path, node=each.node,
            ),
            target.name,
        )
        for each in found
        if each.cause is None
    ]  # fmt: skip
