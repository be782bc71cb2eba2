"""The time of each kernel of an ONNX Runtime session, and the ONNX nodes that it computes.

ONNX Runtime times kernels, not the nodes it was given: it joins several into one (a convolution, its batch norm and its
ReLU) and adds some of its own (changes of layout). The graph that it made of ours, which it can write to a file, says
which of our nodes each kernel ends with; what lies between the ends of two kernels belongs to the later one.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fxlib.lowering.engine import BuildOptions, Kernel
from fxlib.lowering.onnx.export import Exported

_SUFFIX = "_kernel_time"


def profile(exported: Exported, options: BuildOptions, inputs: Sequence[torch.Tensor], runs: int = 10) -> list[Kernel]:
    """Time every kernel of a model, in the order in which they run.

    Args:
        exported: the ONNX model.
        options: as the program was built with.
        inputs: its tensor inputs.
        runs: timed runs; two more come before them.
    """
    from fxlib.lowering.engines.onnxruntime_engine import open_session, session_options

    with tempfile.TemporaryDirectory(prefix="fxlib-profile-") as folder:
        settings = session_options(options)
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(folder) / "profile")
        settings.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        # Beside the model, since no message of protobuf may have the 2 GiB that weights can have.
        settings.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
        settings.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "128")
        session, weights = open_session(exported, settings)
        feed = {
            each.name: tensor.detach().cpu().contiguous().numpy()
            for each, tensor in zip(session.get_inputs(), inputs, strict=True)
        }
        for _ in range(runs + 2):
            session.run(None, feed)
        events = json.loads(Path(session.end_profiling()).read_text())
        ends = _ends(exported, Path(folder) / "optimized.onnx")
        del session, weights
    times: dict[str, list[float]] = {}
    operators: dict[str, str] = {}
    for event in events:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith(_SUFFIX):
            name = name.removesuffix(_SUFFIX)
            times.setdefault(name, []).append(event["dur"] / 1e3)
            operators[name] = event["args"].get("op_name", "")
    order = {ends[name]: place for place, name in enumerate(times) if name in ends}
    members = _members(exported, order)
    return [
        _kernel(exported, name, operators[name], statistics.median(found[2:] or found), ends.get(name, ""), members)
        for name, found in times.items()
    ]


def _kernel(exported: Exported, name: str, operator: str, ms: float, end: str, members: dict[str, list[Any]]) -> Kernel:
    computed = members.get(end, [])
    owners = [node.metadata_props["fx.node"] for node in computed]
    weighed = [
        owner
        for owner, node in zip(owners, computed, strict=True)
        if node.name == end and node.op_type in operator  # `SkipLayerNormalization` is first of all a normalization
    ] + [
        owner
        for owner, node in zip(owners, computed, strict=True)
        if any(value is not None and value.name in exported.parameters for value in node.inputs)
    ]
    main = (weighed or owners[-1:] or [""])[0]
    return Kernel(name, operator, ms, tuple(node.name for node in computed), tuple(dict.fromkeys(owners)), main)


def _ends(exported: Exported, path: Path) -> dict[str, str]:
    """Kernel -> the one of our nodes that it ends with. The kernel's name begins with that node's, or it gives the
    value that the node gave (a value has the name of its node)."""
    import onnx

    ours = {str(node.name) for node in exported.model.graph}
    found = {}
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        end = _beginning(node.name.removeprefix("fused "), ours)
        end = end or next((name for output in node.output if (name := output.rpartition(":")[0] or output) in ours), "")
        if end:
            found[node.name] = end
    return found


def _beginning(name: str, ours: set[str]) -> str:
    """The longest of our names that a kernel's name begins with, up to a mark that ONNX Runtime adds at."""
    for stop in range(len(name), 0, -1):
        if (stop == len(name) or name[stop] in "_/") and name[:stop] in ours:
            return name[:stop]
    return ""


_FIRST = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
"""Operators that a kernel begins with; of what comes before one, ONNX Runtime takes in at most a transposition."""


def _members(exported: Exported, order: dict[str, int]) -> dict[str, list[Any]]:
    """End -> the nodes that its kernel computes, in the order of the graph. `order` is that in which they run, by their
    ends."""
    graph = list(exported.model.graph)
    nodes = {str(node.name): node for node in graph}
    owner = {end: end for end in order}
    for end in owner.copy():
        waiting = [nodes[end]]
        while waiting:
            node = waiting.pop()
            for each in _producers(node):
                taken = node.op_type not in _FIRST or (node.op_type == "MatMul" and each.op_type == "Transpose")
                if taken and str(each.name) not in owner:
                    owner[str(each.name)] = end
                    waiting.append(each)
    for node in graph:  # what is left was taken in by the kernel before it, such as the sum behind a convolution
        if node.name not in owner:
            before = [owner[name] for each in _producers(node) if (name := str(each.name)) in owner]
            if before:
                owner[str(node.name)] = max(before, key=lambda end: order.get(end, -1))
    found: dict[str, list[Any]] = {}
    for node in graph:
        if node.name in owner:
            found.setdefault(owner[str(node.name)], []).append(node)
    return found


def _producers(node: Any) -> list[Any]:
    return [made for value in node.inputs if value is not None and (made := value.producer()) is not None]
