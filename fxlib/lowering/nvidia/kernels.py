"""The table of fused kernels that a TensorRT build prints, as data.

With detailed profiling verbosity the builder logs one message that starts with `Layers:`, one line a kernel. Each
line names the tensors with their types, the tactic, and in its metadata the ONNX nodes that the kernel computes;
since our ONNX nodes are named after FX nodes, a kernel leads back to source lines.
"""

from __future__ import annotations

import math
import re

from fxlib.lowering.engine import Kernel

_LIST = r"\[(?P<{}>|.*?\}})\], "  # tensors in braces; their own dimensions are in square brackets too
_HEAD = re.compile(
    r"Name: (?P<name>.*?), LayerType: (?P<kind>[^,]*), "
    + "Inputs: " + _LIST.format("inputs") + "(?:Constants: " + _LIST.format("constants") + ")?"
    + "Outputs: " + _LIST.format("outputs") + r"(?P<rest>.*)$"
)  # fmt: skip
_TENSOR = re.compile(r"\{ Name: .*?, (?:Location: \w+, )?Dimensions: \[(?P<dims>[^\]]*)\].*?Datatype: (?P<dtype>\w+)")
_ONNX = re.compile(r"\[ONNX Layer: (?P<name>[^\]]*)\]")
_BYTES = {"Float": 4, "Half": 2, "BFloat16": 2, "Int8": 1, "UInt8": 1, "Int32": 4, "Int64": 8, "Bool": 1, "FP8": 1}


def parse(text: str) -> list[Kernel]:
    """The kernels in a builder's `Layers:` message; an empty list where there are none."""
    kernels = []
    for line in text.splitlines():
        match = _HEAD.match(line.strip())
        if match is None or not (match["inputs"] or match["outputs"]):
            continue  # not a kernel: waits between streams have no tensors
        tactic = re.search(r"TacticName: ([^,]*)", match["rest"])
        onnx = tuple(dict.fromkeys(m["name"] for m in _ONNX.finditer(match["rest"])))
        nodes = tuple(dict.fromkeys(name.split("/")[0] for name in onnx))  # an ONNX node is called `<fx node>/<op>`
        passed, constants = (_tensors(match[part]) for part in ("inputs", "constants"))
        passed += _tensors(match["outputs"])
        kernels.append(
            Kernel(
                match["name"], match["kind"], onnx, nodes, nodes[-1] if nodes else "",
                tactic=tactic[1].strip() if tactic else "",
                types=tuple(dict.fromkeys(dtype for dtype, _ in passed)),
                bytes=sum(size for _, size in passed + constants),
            )
        )  # fmt: skip
    return kernels


def _tensors(text: str | None) -> list[tuple[str, int]]:
    """The type and size in bytes of each tensor."""
    found = []
    for match in _TENSOR.finditer(text or ""):
        sizes = [abs(int(size)) for size in match["dims"].split(",") if size.strip().lstrip("-").isdigit()]
        found.append((match["dtype"], _BYTES.get(match["dtype"], 4) * math.prod(sizes)))
    return found
