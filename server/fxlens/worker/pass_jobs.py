"""The job that shows what passes make of a model: both generated forwards, and how far their results are apart.

Runs in the user's interpreter, in a fresh process, like the other jobs of a whole model.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxlens import passes

from . import construct, model_jobs

if TYPE_CHECKING:
    from .job import Job


def _fuse(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    from fxlib.passes.fuse_conv_bn import fuse_conv_bn

    return fuse_conv_bn(gm)


def _dropout(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    from fxlib.passes.dropout import remove_dropout

    return remove_dropout(gm)


def _activation(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    import torch

    from fxlib.passes.replace_activations import replace_activations

    return replace_activations(gm, options["old"], getattr(torch.nn, options["new"])())


def _dead_code(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    from fxlib.passes.dead_code import eliminate_dead_code

    return eliminate_dead_code(gm)


def _common(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    from fxlib.passes.cse import eliminate_common_subexpressions

    return eliminate_common_subexpressions(gm)


def _quantize(gm: Any, inputs: Any, options: dict[str, Any]) -> Any:
    from fxlib.passes.quantize import quantize_static

    try:
        # Other engines know explicit quantization, not the kernels that run here.
        return quantize_static(gm, [inputs], form="qdq" if options.get("onnx") else "kernels")
    except (RuntimeError, ValueError, TypeError) as error:
        raise model_jobs.Refused(f"the model cannot be quantized: {construct.brief(error)}") from error


PASSES: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "fuse": _fuse, "dropout": _dropout, "activation": _activation, "dead-code": _dead_code, "common": _common,
    "quantize": _quantize,
}  # fmt: skip


def apply(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The forward before and after ``options["passes"]``, applied in the order of ``passes.PASSES``.

    ``options["out"]`` is a folder to save the new model in, ``options["onnx"]`` a file to export it to.
    """
    import torch

    names = passes.ordered(options.get("passes") or ())
    problem = passes.problem(names, options.get("old"), options.get("new"))
    if problem:
        raise model_jobs.Refused(problem)
    module, inputs, concrete, target = model_jobs._model(job, real=True)
    say = model_jobs._progress(job, target)
    gm = model_jobs._traced(module, concrete, target.name)
    before, nodes = gm.code.lstrip("\n"), len(gm.graph.nodes)
    with torch.no_grad():
        expected = gm(*inputs)
        changed, refused, notes = gm, [], []
        for number, name in enumerate(names):
            say(passes.PASSES[name].label.rstrip("…"), number / len(names))
            changed = PASSES[name](changed, inputs, options)
            refused += _left(changed, name)
            notes += _notes(changed, name)
        given = changed(*inputs)
    if options.get("out"):
        _save(changed, Path(options["out"]), target.name)
    if options.get("onnx"):
        _export(changed, inputs, options["onnx"], target.name)
    return {
        "target": target.name, "passes": names, "before": before, "after": changed.code.lstrip("\n"),
        "error": _difference(expected, given), "nodes": [nodes, len(changed.graph.nodes)], "refused": refused,
        "notes": notes, "library": _has_library(),
    }  # fmt: skip


def _left(changed: Any, name: str) -> list[str]:
    """What the pass left as it was, and why."""
    report = changed.meta.get("fuse_conv_bn") if name == "fuse" else None
    return [f"{each.norm}: {each.reason}" for each in report.refused] if report is not None else []


def _notes(changed: Any, name: str) -> list[str]:
    """What else is worth knowing of what the pass did, a sentence each."""
    if name == "activation":
        count = changed.meta["replace_activations"]
        return [f"{_count(count, 'place')} swapped; another activation computes otherwise."]
    if name == "quantize":
        layers = [each for each in changed.meta["quantize"].layers if each.quantized]
        text = f"{_count(len(layers), 'layer')} on integers, with ranges of the example inputs"
        worst = max(layers, key=lambda each: each.error, default=None)
        return [f"{text}; the largest error is {worst.path}'s, {worst.error:.1e}." if worst else f"{text}."]
    return []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _save(changed: Any, folder: Path, name: str) -> None:
    """A folder that can be imported; it needs fxlib only where the model itself does."""
    import warnings

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed.to_folder(folder, name)
        file = folder / "module.py"
        text = file.read_text(encoding="utf-8")
        body = text[text.index("class ") :]
        for short in ("fx_pytree", "pytree"):
            if f"{short}." not in body:
                text = re.sub(rf"^import \S+ as {short}\n", "", text, flags=re.MULTILINE)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise model_jobs.Refused(f"{folder} cannot be written: {error.strerror or error}") from error


def _export(changed: Any, inputs: Any, file: str, name: str) -> None:
    if importlib.util.find_spec("onnx_ir") is None:
        raise model_jobs.Refused(
            f"exporting to ONNX needs onnx_ir, which {sys.executable} has not: pip install onnx_ir ml_dtypes"
        )
    import onnx_ir

    from fxlib.lowering import Unsupported, to_onnx

    try:
        onnx_ir.save(to_onnx(changed, inputs, name=name).model, file)
    except Unsupported as error:
        raise model_jobs.Refused(f"{name} has no ONNX form as a whole: {error}") from error
    except OSError as error:
        raise model_jobs.Refused(f"{file} cannot be written: {error.strerror or error}") from error


def _has_library() -> bool:
    """Whether the interpreter has fxlib of its own: here it is loaded from beside the server."""
    return any(True for _ in importlib.metadata.distributions(name="fxlens"))


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
