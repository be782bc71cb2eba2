"""What fxlib does with models that nobody here wrote: one of each of 30 families of timm, 40 of transformers.

    python benchmarks/zoo_passes.py [timm] [transformers] [--only SUBSTRING] [--engine onnxruntime] [--json FILE]

Columns: how the model was captured; whether `fxlib.lower` gives all of it to the engine, else how many nodes stay in
PyTorch and why; the largest difference from eager on the example inputs, relative to the largest magnitude; seconds
from the model to the lowered one.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import fxlib  # noqa: E402
from tests.fxlib.zoo.calls import Call, timm_calls, transformers_calls  # noqa: E402

FAMILIES = {"timm": timm_calls, "transformers": transformers_calls}


def lowered(call: Call, engine: str) -> dict[str, Any]:
    """What came of lowering one model."""
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


def line(call: Call, row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{call.name:32} {row['refused']}"
    whole = "whole" if not row["left"] else f"{row['left']} of {row['nodes']} stay"
    error = "" if row["difference"] is None else f"{row['difference']:.1e}"
    return f"{call.name:32} {row['captured']:13} {whole:18} {error:>8} {row['seconds']:7.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--only", default="", help="models whose names contain this")
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
            row = found[str(call)] = lowered(call, options.engine)
            rows.append(row)
            print(line(call, row), flush=True)
            for reason, count in row.get("reasons", {}).items():
                print(f"{'':32}   {count} x {reason}", flush=True)
            gc.collect()
        whole = sum(1 for row in rows if row.get("left") == 0)
        print(f"{family}: {whole} of {len(rows)} lowered whole", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
