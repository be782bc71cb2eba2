"""Applies passes to a model: returns both generated forwards and the difference of their results; the changed model
stays in its process to be saved or exported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxlens.answers import Difference, PassResult
from fxlens.passes.table import PASSES, Choice, ordered, problem

if TYPE_CHECKING:
    from fxlens.worker.job import Job
    from fxlens.worker.one_model import Model

TITLE = "Applying passes to"


def work(job: Job) -> None:
    """The result of ``options["passes"]``; then, for each further request, ``{"out": folder}`` saves the changed model
    and ``{"onnx": file}`` exports it; both are also options."""
    from fxlens.worker import one_model

    changed: _Changed | None = None

    def first() -> PassResult:
        nonlocal changed
        changed = _Changed(job)
        shown = changed.shown()
        changed.keep(job.message["options"])
        return shown

    one_model.answer(job, first)
    while changed is not None and (request := job.next_request()) is not None:
        job.step("save", changed.model.target)
        one_model.answer(job, lambda: changed.keep(request))


class _Changed:
    """A model before and after the passes."""

    def __init__(self, job: Job) -> None:
        import torch

        from fxlens.worker import one_model

        options = job.message["options"]
        names = ordered(options.get("passes") or ())
        self.choice = Choice(names, options.get("old") or "", options.get("new") or "")
        refusal = problem(self.choice)
        if refusal:
            raise one_model.Refused(refusal)
        self.model = one_model.make(job, real=True)
        self._say = one_model.progress(job, self.model.target)
        before = self.model.traced()
        self._code, self._nodes = before.code.lstrip("\n"), len(before.graph.nodes)
        with torch.no_grad():
            expected = before(*self.model.in_order)
            self._graph_module, self._left, self._notes = self._apply(before, self.choice)
            self._error = _difference(expected, self._graph_module(*self.model.in_order))

    def _apply(self, changed: Any, choice: Choice) -> tuple[Any, list[str], list[str]]:
        """The changed model, nodes that the passes left unchanged and why, and further notes."""
        from fxlens.worker import errors, one_model

        left: list[str] = []
        notes: list[str] = []
        for number, each in enumerate(PASSES[name] for name in choice.passes):
            label = each.label.rstrip("…")
            self._say(label, number / len(choice.passes))
            try:
                changed = each.run(changed, self.model.in_order, choice)
            except (RuntimeError, ValueError, TypeError) as error:
                text = f"{label} cannot be applied to {self.model.name}: {errors.brief(error)}"
                raise one_model.Refused(text) from error
            left += each.left(changed)
            notes += each.notes(changed)
        return changed, left, notes

    def shown(self) -> PassResult:
        return {
            "target": self.model.name, "passes": self.choice.passes, "before": self._code,
            "after": self._graph_module.code.lstrip("\n"), "error": self._error,
            "nodes": [self._nodes, len(self._graph_module.graph.nodes)], "refused": self._left, "notes": self._notes,
            "library": _has_library(),
        }  # fmt: skip

    def keep(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        from fxlens.worker import outputs

        force = request.get("force") is True
        out, onnx = request.get("out") or "", request.get("onnx") or ""
        if out:
            with outputs.writing(out):
                outputs.check_folder(out, force)
        if onnx:
            with outputs.writing(onnx):
                outputs.check_file(onnx, force)
        if out:
            _save(self._graph_module, out, self.model.name, self.model.in_order)
        if onnx:
            _export(self._to_export(), self.model, onnx)
        return {}

    def _to_export(self) -> Any:
        """The changed model; the passes run again if an export needs another form of it."""
        import torch

        if "quantize" not in self.choice.passes:
            return self._graph_module
        with torch.no_grad():
            return self._apply(self.model.traced(), replace(self.choice, export=True))[0]


def _save(changed: Any, folder: str, name: str, inputs: tuple[Any, ...]) -> None:
    """A folder that can be imported, and computes what the model does; it needs fxlib only if the model itself does."""
    import warnings

    from fxlens.worker import outputs
    from fxlib.codegen.saving import save_folder

    def write(place: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed.to_folder(place, name)
        file = place / "module.py"
        text = file.read_text(encoding="utf-8")
        body = text[text.index("_FOLDER = ") :]
        for short in ("fx_pytree", "pytree"):
            if f"{short}." not in body:
                text = re.sub(rf"^import \S+ as {short}\n", "", text, flags=re.MULTILINE)
        file.write_text(text, encoding="utf-8")
        _check(changed, file, name, inputs)

    with outputs.writing(folder):
        save_folder(Path(folder), write)


def _check(changed: Any, file: Path, name: str, inputs: tuple[Any, ...]) -> None:
    """Loads what was saved and runs it on the example: what has no source form may be lost without an error.

    Raises:
        Refused: it computes something else.
    """
    import torch
    from torch.func import functional_call
    from torch.utils import _pytree as pytree

    from fxlens.worker import one_model
    from fxlib.lowering.difference import difference, mismatch

    # An import would leave compiled files among those that are saved.
    written: dict[str, Any] = {"__name__": f"{__name__}.saved", "__file__": str(file)}
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), written)
    loaded = written[name]()
    results = []
    for module in (changed, changed, loaded):
        # The model, which may be saved again, keeps its buffers.
        buffers = {path: buffer.clone() for path, buffer in module.named_buffers()}
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            results.append(functional_call(module, buffers, pytree.tree_map_only(torch.Tensor, torch.clone, inputs)))
    expected, again, given = results
    # A result that is another one each time tells nothing.
    said = mismatch(expected, given) or (difference(again, given)[1] > _SAME >= difference(expected, again)[1])
    if said:
        raise one_model.Refused(f"{name} would compute something else when it is loaded from a folder")


_SAME = 1e-5  # relative


def _export(changed: Any, model: Model, file: str) -> None:
    from fxlens.worker import one_model, outputs

    if importlib.util.find_spec("onnx_ir") is None:
        raise one_model.Refused(
            f"Exporting to ONNX needs onnx_ir, which {sys.executable} does not have: pip install onnx_ir ml_dtypes"
        )
    import onnx_ir

    from fxlib.lowering import Unsupported, to_onnx

    try:
        exported = onnx_ir.to_proto(to_onnx(changed, model.in_order, name=model.name).model).SerializeToString()
    except Unsupported as error:
        raise one_model.Refused(f"{model.name} has no ONNX form as a whole: {error}") from error
    with outputs.writing(file):
        outputs.save_file(file, exported)


def _has_library() -> bool:
    """Whether fxlib is installed in the interpreter; here it is loaded from the server's folder."""
    return any(True for _ in importlib.metadata.distributions(name="fxlens"))


def _difference(expected: Any, given: Any) -> Difference:
    """The largest relative difference of two results (2-norms); None if they are not tensors."""
    import torch
    from torch.utils import _pytree as pytree

    from fxlib.lowering.difference import difference
    from fxlib.passes.quantize.report import relative_error

    if not math.isfinite(difference(expected, given)[0]):
        return "not finite"
    pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(given), strict=True)
    found = []
    for one, two in pairs:
        if isinstance(one, torch.Tensor):
            # Non-finite values are the same in both.
            finite = [each.double().nan_to_num(0.0, 0.0, 0.0) for each in (one, two)]
            found.append(relative_error(finite[1], finite[0]))
    return max(found, default=None)
