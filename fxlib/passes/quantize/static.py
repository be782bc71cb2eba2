"""Post-training quantization of a whole model: static, with calibrated ranges, and dynamic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import NoneType
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_float_graph, check_traced
from fxlib.ir.leaves import as_sequence, copied
from fxlib.ir.modules import copy_of, data_kept, is_altered
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import module_of
from fxlib.passes.dropout import remove_dropout
from fxlib.passes.edits import in_order, place_module
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.layouts import keep_layouts
from fxlib.passes.optimize_for_inference import pack_layers
from fxlib.passes.quantize.calibrate import Progress, calibrate, refused_example, text_progress
from fxlib.passes.quantize.convert import to_kernels, to_qdq
from fxlib.passes.quantize.layers import DynamicQuantizedLinear
from fxlib.passes.quantize.plan import make_plan
from fxlib.passes.quantize.report import QuantizationReport, first_result, layer_errors, relative_error
from fxlib.passes.quantize.tolerance import harms, left_in_float
from fxlib.shapes import propagate
from fxlib.shapes.kernel import ShapeError
from fxlib.shapes.propagation import check_count

__all__ = ["quantize_dynamic", "quantize_static"]


def quantize_static(
    graph_module: GraphModule,
    data: Iterable[Any],
    *,
    observer: str = "minmax",
    per_channel: bool = True,
    tolerance: float | None = 0.05,
    skip: Iterable[str] = (),
    form: str = "kernels",
    engine: str | None = None,
    progress: bool | Progress = False,
) -> GraphModule:
    """An int8 version of a float32 CPU model in evaluation mode; ``graph_module`` itself is not changed.

    Batch norms are folded and dropout removed first. Convolutions and linear layers take uint8 and int8; pooling,
    reshaping, ReLU and equal-shaped sums between them stay 8-bit.

    Args:
        data: calibration examples; each item is the tuple of inputs or the only input.
        observer: ``minmax``, ``moving-average``, ``histogram`` (least squared error) or ``percentile``.
        per_channel: one weight scale per output channel.
        tolerance: the relative error that the model's first result may have on the first example. Beyond it, as few as
            possible of the most harmful layers are left in float; None quantizes all.
        skip: node names or module paths to leave in float.
        form: ``kernels`` runs here; ``qdq`` is the exchange form with explicit Q and DQ, for `fxlib.lower`.
        engine: the engine that the exchange form is for, by its name in `fxlib.lowering.table()`: NVIDIA's take
            symmetric int8 activations, the others affine uint8 ones. None is the engine that `fxlib.lower` takes.
        progress: True for a bar on standard error, or a callable ``(done, total)``.

    Returns:
        The new GraphModule, with its `QuantizationReport` in ``meta["quantize"]``.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: no data, NaN in it, an example that the model fails on, training mode, a model that is not float32,
            an unknown form, an engine together with ``kernels``, or an unknown name in `skip`.
        EngineError: there is no such engine.
    """
    check_float_graph(graph_module, "quantize_static()")
    _check_arguments(graph_module, data, tolerance, skip, progress)
    _check_flags("quantize_static()", per_channel=per_channel)
    if form not in ("kernels", "qdq"):
        raise ValueError(f"quantize_static() form must be 'kernels' or 'qdq', not {form!r}")
    if engine is not None and form != "qdq":
        raise ValueError(f"quantize_static(): engine={engine!r} needs form='qdq', because the kernels run in PyTorch")
    symmetric = False
    if form == "qdq":
        from fxlib.lowering.engines import DEFAULT, get

        symmetric = get(DEFAULT if engine is None else engine).symmetric_int8
    if any(m is not None and m.training for m in (module_of(graph_module, n) for n in graph_module.graph.nodes)):
        raise ValueError("quantize_static() needs a model in evaluation mode; call eval() before")
    items = data if hasattr(data, "__len__") else list(map(as_sequence, data))
    first = next(iter(items), None)
    if first is None:
        raise ValueError("quantize_static() got no calibration data: pass at least one example input")
    example = tuple(as_sequence(first))
    model = copy_of(graph_module)
    check_count(model, example, "quantize_static()")
    try:
        propagate(model, *example)
    except ShapeError as error:
        raise refused_example(0, error) from error
    remove_dropout(fuse_conv_bn(model))
    if form == "kernels":
        keep_layouts(model)
    bar = text_progress if progress is True else progress or None
    skipped = frozenset(skip)
    plan = make_plan(model, skipped)
    every = Aliases(model).changes_state()

    def kept(run: Callable[[], Any]) -> Any:
        with torch.no_grad(), data_kept(model, every):
            return run()

    ranges = kept(lambda: calibrate(model, plan, items, observer, bar))
    report = QuantizationReport(kept(lambda: layer_errors(model, plan, ranges, copied(example), per_channel)))
    expected = kept(lambda: first_result(model(*copied(example))))

    def converted(left: frozenset[str]) -> tuple[GraphModule, float | None]:
        some = make_plan(model, skipped | left) if left else plan
        own = kept(lambda: calibrate(model, some, items, observer)) if left else ranges
        if symmetric:
            own = {node: q.symmetric() for node, q in own.items()}
        made = (to_kernels if form == "kernels" else to_qdq)(model, some, own, per_channel)
        found = kept(lambda: first_result(made(*copied(example))))
        return made, None if found is None or expected is None else relative_error(found, expected)

    result, report.total_error = converted(frozenset())
    if tolerance is not None and (report.total_error or 0.0) > tolerance:
        harm = kept(lambda: harms(model, plan, ranges, copied(example), per_channel))
        left = left_in_float(harm, tolerance, lambda names: converted(names)[1] or 0.0)
        result, report.total_error = converted(left)
        report.layers = [replace(e, quantized=e.node not in left, harm=harm[e.node]) for e in report.layers]
        if form == "kernels":
            pack_layers(result)
    result.meta["quantize"] = report
    return result


def quantize_dynamic(graph_module: GraphModule, per_channel: bool = True, min_weights: int = 1024) -> GraphModule:
    """Int8 weights for every linear layer, with input ranges computed at run time; needs no data, and returns a changed
    copy.

    Layers with hooks, and layers that forward writes to, stay in float.

    Args:
        min_weights: layers with fewer weights than this stay in float, where finding the range costs more than it
        saves.
    """
    check_traced(graph_module, "quantize_dynamic()")
    _check_flags("quantize_dynamic()", per_channel=per_channel)
    if type(min_weights) is not int:
        raise TypeError(f"quantize_dynamic(): min_weights must be an integer, not {type(min_weights).__name__}")
    if min_weights < 0:
        raise ValueError(f"quantize_dynamic(): min_weights must be 0 or more, not {min_weights}")
    result = copy_of(graph_module)
    written = Aliases(result).changed_state()
    made: dict[nn.Module, str] = {}
    for node in result.graph.nodes:
        module = module_of(result, node)
        if type(module) is not nn.Linear or is_altered(module) or node in written:
            continue
        if module.weight.dtype is not torch.float32 or module.weight.numel() < min_weights:
            continue
        if module not in made:
            eight = DynamicQuantizedLinear(module, per_channel).eval()
            made[module] = place_module(result, eight, node, "_int8")
        node.target = made[module]
    return in_order(result)


def _check_flags(who: str, **flags: Any) -> None:
    """
    Raises:
        TypeError: one of them is neither True nor False.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{who}: {name} must be True or False, not {value!r}")


def _check_arguments(graph_module: GraphModule, data: Any, tolerance: Any, skip: Any, progress: Any) -> None:
    """
    Raises:
        TypeError, ValueError: as `quantize_static`.
    """
    who = "quantize_static()"
    if isinstance(data, torch.Tensor):
        raise TypeError(f"{who}: data must be a list of calibration examples, not a tensor; pass [x] for one example")
    if not isinstance(data, Iterable):
        raise TypeError(f"{who}: data must be an iterable of calibration examples, not {type(data).__name__}")
    if isinstance(data, Mapping):
        raise TypeError(f"{who}: data must be a list of examples, not a mapping; an example is a tuple of inputs")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float, NoneType)):
        raise TypeError(f"{who}: tolerance must be a number, not {type(tolerance).__name__}")
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"{who}: tolerance must be 0 or more, or None, not {tolerance}")
    if not callable(progress) and not isinstance(progress, bool):
        raise TypeError(f"{who}: progress must be True, or a function of two numbers, not {type(progress).__name__}")
    if not isinstance(skip, Iterable):
        raise TypeError(f"{who}: skip must be a list of names, not {type(skip).__name__}")
    if isinstance(skip, str):
        raise TypeError(f"{who}: skip must be a list of names, not a string; pass [{skip!r}]")
    layers = [n for n in graph_module.graph.nodes if type(module_of(graph_module, n)) in (nn.Conv2d, nn.Linear)]
    known = {name for node in graph_module.graph.nodes for name in (node.name, str(node.target))}
    for name in skip:
        if name not in known:
            some = ", ".join(str(node.target) for node in layers[:5])
            raise ValueError(f"{who} got {name!r} in skip, but no node or module has that name; layers are {some}")
    kinds = {module_of(graph_module, node).weight.dtype for node in layers}  # type: ignore[union-attr]
    if kinds and torch.float32 not in kinds:
        raise ValueError(f"{who} takes a float32 model, not one of {kinds.pop()}; call float() on it")
