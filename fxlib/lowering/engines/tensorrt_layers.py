"""The fused-kernel table that a TensorRT build prints, as data.

With detailed profiling verbosity the builder logs one message that starts with `Layers:`, one line a kernel. Each
line names the tensors with their types, the tactic, and in its metadata the ONNX nodes that the kernel computes;
since our ONNX nodes are named after FX nodes, a kernel leads back to source lines.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_LIST = r"\[(?P<{}>|.*?\}})\], "  # tensors in braces; their own dimensions are in square brackets too
_HEAD = re.compile(
    r"Name: (?P<name>.*?), LayerType: (?P<kind>[^,]*), "
    + "Inputs: " + _LIST.format("inputs") + "(?:Constants: " + _LIST.format("constants") + ")?"
    + "Outputs: " + _LIST.format("outputs") + r"(?P<rest>.*)$"
)  # fmt: skip
_TENSOR = re.compile(
    r"\{ Name: (?P<name>.*?), (?:Location: \w+, )?Dimensions: \[(?P<dims>[^\]]*)\].*?Datatype: (?P<dtype>\w+)"
)
_ONNX = re.compile(r"\[ONNX Layer: (?P<name>[^\]]*)\]")
_BYTES = {"Float": 4, "Half": 2, "BFloat16": 2, "Int8": 1, "UInt8": 1, "Int32": 4, "Int64": 8, "Bool": 1, "FP8": 1}


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        size = _BYTES.get(self.dtype, 4)
        for d in self.shape:
            size *= abs(d)
        return size


@dataclass(frozen=True)
class Layer:
    """One kernel of a built engine."""

    name: str
    kind: str
    tactic: str
    inputs: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    onnx: tuple[str, ...]
    """Names of the ONNX nodes that this kernel computes."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the FX nodes it computes: an ONNX node is called `<fx node>/<op>`."""
        return tuple(dict.fromkeys(name.split("/")[0] for name in self.onnx))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.dtype for t in (*self.inputs, *self.outputs)))

    @property
    def nbytes(self) -> int:
        """Bytes read and written by one run of the kernel."""
        return sum(t.nbytes for t in (*self.inputs, *self.constants, *self.outputs))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "nodes": self.nodes, "types": self.types, "bytes": self.nbytes}


def parse(text: str) -> list[Layer]:
    """The layers in a builder's `Layers:` message; an empty list where there are none."""
    layers = []
    for line in text.splitlines():
        match = _HEAD.match(line.strip())
        if match is None or not (match["inputs"] or match["outputs"]):
            continue  # not a kernel: streams waiting for each other have no tensors
        rest = match["rest"]
        tactic = re.search(r"TacticName: ([^,]*)", rest)
        layers.append(
            Layer(
                match["name"],
                match["kind"],
                tactic[1].strip() if tactic else "",
                _tensors(match["inputs"]),
                _tensors(match["constants"]),
                _tensors(match["outputs"]),
                tuple(dict.fromkeys(m["name"] for m in _ONNX.finditer(rest))),
            )
        )
    return layers


def _tensors(text: str | None) -> tuple[Tensor, ...]:
    found = []
    for match in _TENSOR.finditer(text or ""):
        dims = tuple(int(d) for d in match["dims"].split(",") if d.strip().lstrip("-").isdigit())
        found.append(Tensor(match["name"], dims, match["dtype"]))
    return tuple(found)
