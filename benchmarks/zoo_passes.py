"""fxlib on third-party models: one of each of 30 families of timm, 41 of transformers.

    python benchmarks/zoo_passes.py [timm] [transformers] [--only NAME] [--stages] [--engine onnxruntime] [--json FILE]

Columns of both: how the model was captured; whether `fxlib.lower` passes all of it to the engine, otherwise how many
nodes stay in PyTorch and why; the largest difference from eager on the example inputs, relative to the largest
magnitude; seconds from the model to the lowered one.

For timm also: folded batch norms, of those in evaluation mode that follow a layer; static int8 by the default recipe:
relative error of the first result, layers left in float of all layers, speed as a multiple of packed float32.

For both: FLOPs of the most expensive of four stages, relative to the best possible cuts between any two nodes, and the
largest difference of the stages' result from the graph's. `--stages` prints only these two columns.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import fxlib  # noqa: E402
from fxlib.lowering.capture import capture  # noqa: E402
from fxlib.lowering.inputs import Inputs  # noqa: E402
from fxlib.passes.cost import estimate  # noqa: E402
from fxlib.passes.fuse_conv_bn import fuse_conv_bn  # noqa: E402
from fxlib.passes.optimize_for_inference import optimize_for_inference  # noqa: E402
from fxlib.passes.quantize import quantize_static  # noqa: E402
from fxlib.passes.stages import balanced_cuts, split_into_stages  # noqa: E402
from fxlib.shapes import propagate  # noqa: E402
from tests.fxlib.zoo.calls import Call, timm_calls, transformers_calls  # noqa: E402

FAMILIES = {"timm": timm_calls, "transformers": transformers_calls}


def lowered(call: Call, engine: str) -> dict[str, Any]:
    """The result of lowering one model."""
    torch.manual_seed(0)
    model = call.build().eval()
    inputs = call.inputs(model)
    start = time.perf_counter()
    try:
        report = fxlib.lower(model, inputs, engine=engine).report
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        return {"refused": f"{type(error).__name__}: {text[0]}"}
    return {
        "captured": report.captured_by,
        "nodes": len(report.layers),
        "left": len(report.reasons),
        "reasons": dict(collections.Counter(f"{report.codes[n]} {text}" for n, text in report.reasons.items())),
        "difference": report.max_rel_error,
        "seconds": time.perf_counter() - start - report.timings["compare"] / 1e3,
    }


def passed(call: Call) -> dict[str, Any]:
    """The results of passes on a traceable model."""
    torch.manual_seed(0)
    model = call.build().eval()
    (x,) = call.inputs(model).values()
    folded = fuse_conv_bn(traced(model, x)).meta["fuse_conv_bn"]
    elsewhere = ("before it is", "`training` argument")
    after_a_layer = [each for each in folded.refused if not any(words in each.reason for words in elsewhere)]
    with torch.no_grad():
        packed = optimize_for_inference(traced(model, x), x)
        eight = quantize_static(traced(model, x), [x, torch.randn_like(x)])
        report = eight.meta["quantize"]
        seconds = [quickest(each, x) for each in (packed, eight)]
    return {
        "folded": len(folded.fused),
        "foldable": len(folded.fused) + len(after_a_layer),
        "int8_error": report.total_error,
        "in_float": sum(not each.quantized for each in report.layers),
        "layers": len(report.layers),
        "int8_speed": seconds[0] / seconds[1],
    }


def traced(model: torch.nn.Module, x: torch.Tensor) -> fxlib.GraphModule:
    graph_module = fxlib.symbolic_trace(model)
    propagate(graph_module, x)
    return graph_module


def quickest(model: torch.nn.Module, x: torch.Tensor, runs: int = 7) -> float:
    model(x)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        model(x)
        times.append(time.perf_counter() - start)
    return min(times)


def staged(call: Call, count: int = 4) -> dict[str, Any]:
    """The result of splitting one model into stages, as captured for lowering."""
    torch.manual_seed(0)
    model = call.build().eval()
    captured = capture(model, Inputs(model.forward, call.inputs(model)))
    graph_module, values = captured.gm, tuple(captured.tensors)
    worst = 0.0
    with torch.no_grad():
        costs = [node.flops for node in estimate(graph_module, *values).nodes]
        bounds = [0, *balanced_cuts(costs, list(range(1, len(costs))), count), len(costs)]
        best = max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))
        expected = tree_leaves(graph_module(*values))
        for stage in split_into_stages(graph_module, count, *values):
            worst = max(worst, estimate(stage, *values).flops)
            result = stage(*values)
            values = result if isinstance(result, tuple) else (result,)
    differences = [float((a - b).abs().max()) for a, b in zip(tree_leaves(result), expected, strict=True)]
    return {"stages": worst / best, "stages_difference": max(differences)}


def line(call: Call, row: dict[str, Any]) -> str:
    stages = f"{row['stages']:6.3f} {row['stages_difference']:8.1e}" if "stages" in row else ""
    if "captured" not in row:
        return f"{call.name:32} {row.get('refused', '')} {stages}"
    whole = "whole" if not row["left"] else f"{row['left']} of {row['nodes']} stay"
    error = "" if row["difference"] is None else f"{row['difference']:.1e}"
    text = f"{call.name:32} {row['captured']:13} {whole:18} {error:>8} {row['seconds']:7.1f} s"
    if "folded" in row:
        text += f"  {row['folded']:3}/{row['foldable']:<3} {percent(row['int8_error'])}"
        text += f" {row['in_float']:3}/{row['layers']:<3} {row['int8_speed']:5.2f}x"
    return f"{text} {stages}"


def percent(error: float | None) -> str:
    """A relative error, `nan` if undefined, `no` if there is no tensor to compare."""
    return "     no" if error is None else f"{100 * error:5.1f} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--stages", action="store_true", help="only how well four stages are balanced")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--json", type=Path, help="write the rows there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Any]] = {}
    for family in options.families:
        rows: list[dict[str, Any]] = []
        for call in FAMILIES[family]():
            if options.only not in call.name:
                continue
            row = found[str(call)] = {} if options.stages else lowered(call, options.engine)
            if family == "timm" and not options.stages:
                row |= passed(call)
            row |= staged(call)
            rows.append(row)
            print(line(call, row), flush=True)
            for reason, count in row.get("reasons", {}).items():
                print(f"{'':32}   {count} x {reason}", flush=True)
            gc.collect()
        if not options.stages:
            print(f"{family}: {sum(row.get('left') == 0 for row in rows)} of {len(rows)} lowered whole", flush=True)
        within = sum(row["stages"] <= 1.1 for row in rows)
        print(f"{family}: stages of {within} of {len(rows)} within 10 % of the best cuts", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
