"""What a graph costs before it is run: operations, bytes, parameters, peak memory, and time on a named device.

On a data-sheet device the time of a node is the roofline's: the longer of its arithmetic and its memory traffic, plus a
launch (Williams, Waterman, Patterson 2009), a lower bound. On `devices.calibrated_cpu` it is a prediction from measured
rates: arithmetic at the rate of its kind of operator, plus the memory traffic (or the cache's, if the data fits).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.ir.paths import submodule
from fxlib.ir.spelling import target_name
from fxlib.passes.calls import argument, called, is_dropout_off, library_name, mutates
from fxlib.passes.devices import DEVICES, Device
from fxlib.passes.flops import flops_of, kind_of
from fxlib.shapes.inference import infer
from fxlib.shapes.kernel import map_values
from fxlib.shapes.propagation import _describe, _load, _placeholder, check_count
from fxlib.shapes.tensor_meta import TensorMeta

__all__ = ["Estimate", "NodeCost", "estimate"]


@dataclass(frozen=True)
class NodeCost:
    """One node: operations, bytes read (inputs and parameters) and written, parameters, seconds on the device."""

    name: str
    op: str
    target: str
    flops: int
    read: int
    written: int
    parameters: int
    seconds: float | None


@dataclass
class Estimate:
    """A whole graph. ``peak_bytes`` is parameters, inputs and the largest sum of values alive at once."""

    device: Device | None
    nodes: list[NodeCost] = field(default_factory=list)
    parameters: int = 0
    parameter_bytes: int = 0
    peak_bytes: int = 0
    peak_node: str = ""

    @property
    def flops(self) -> int:
        return sum(n.flops for n in self.nodes)

    @property
    def bytes(self) -> int:
        return sum(n.read + n.written for n in self.nodes)

    @property
    def seconds(self) -> float | None:
        return None if self.device is None else sum(n.seconds or 0.0 for n in self.nodes)

    @property
    def launch_seconds(self) -> float | None:
        """The part of `seconds` spent on kernel launches; the rest is a lower bound on a data-sheet device."""
        return None if self.device is None else self.device.overhead * sum(bool(n.seconds) for n in self.nodes)

    def __str__(self) -> str:
        rows = sorted(self.nodes, key=lambda n: (-(n.seconds or 0), -n.flops))
        lines = [f"{'node':<32}{'GFLOPs':>10}{'MB':>10}{'params':>12}{'us':>10}"]
        lines += [
            f"{n.name[:31]:<32}{n.flops / 1e9:>10.4f}{(n.read + n.written) / 1e6:>10.2f}{n.parameters:>12}"
            f"{'' if n.seconds is None else f'{n.seconds * 1e6:.1f}':>10}"
            for n in rows[:20]
        ]
        time = (
            ""
            if self.seconds is None or self.device is None
            else f", {self.seconds * 1e3:.3f} ms on {self.device.name}, "
            f"{(self.launch_seconds or 0) * 1e3:.3f} ms of it to start kernels"
        )
        lines.append(
            f"total: {self.flops / 1e9:.4f} GFLOPs, {self.bytes / 1e6:.1f} MB moved, {self.parameters} parameters, "
            f"peak {self.peak_bytes / 1e6:.1f} MB at {self.peak_node}{time}"
        )
        return "\n".join(lines)


def estimate(graph_module: GraphModule, *inputs: Any, device: Device | str | None = None) -> Estimate:
    """Cost of one run on inputs of this metadata; nothing is computed.

    Args:
        inputs: tensors of any kind or `TensorMeta`, one per placeholder.
        device: a `Device` or the name of one in `devices.DEVICES`.

    Raises:
        KeyError: unknown device name; the known ones are named.
        TypeError: `device` is neither a name nor a device.
        ShapeError: the inputs do not fit the graph.
    """
    check_traced(graph_module, "estimate()")
    if isinstance(device, str):
        if device not in DEVICES:
            raise KeyError(f"no device {device!r} in the table; known: {', '.join(DEVICES)}")
        device = DEVICES[device]
    if device is not None and not isinstance(device, Device):
        raise TypeError(f"estimate(): device must be a name or a Device, not {type(device).__name__}")
    check_count(graph_module, inputs, "estimate()")
    state = {id(p): p for p in [*graph_module.parameters(), *graph_module.buffers()]}
    result = Estimate(device)
    result.parameters = sum(p.numel() for p in graph_module.parameters())
    result.parameter_bytes = sum(p.nbytes for p in state.values())
    env: dict[Node, Any] = {}
    memory = _Memory(graph_module)
    given = iter(map_values(list(inputs), _describe))
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            env[node] = _placeholder(node, given)
            memory.hold(node, env[node])
            continue
        if node.op == "output":
            continue
        args, kwargs = _load(node.args, env), _load(node.kwargs, env)
        env[node] = infer(node.op, node.target, args, kwargs, graph_module)
        memory.step(node, env[node])
        if node.op != "get_attr":
            result.nodes.append(_node_cost(graph_module, node, args, kwargs, env[node], device))
    result.peak_bytes, result.peak_node = result.parameter_bytes + memory.peak, memory.peak_node
    return result


def _node_cost(
    root: nn.Module, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, device: Device | None
) -> NodeCost:
    parameters = weights = 0
    if node.op == "call_module":
        module = submodule(root, str(node.target))
        parameters = sum(p.numel() for p in module.parameters())
        weights = sum(p.nbytes for p in module.parameters())
    flops = flops_of(root, node, args, kwargs, out)
    read = written = 0
    if not is_view(root, node) and _tensors(out):
        read = sum(t.nbytes for t in set(_tensors(args) + _tensors(kwargs))) + weights
        written = sum(t.nbytes for t in _tensors(out))
        if called(root, node) == "embedding":
            read = read - weights + written
    seconds = None
    if device is not None and (read or written or flops):
        held = min(weights, read)
        seconds = _seconds(root, node, flops, read + written - held, held, args, out, device)
    elif device is not None:
        seconds = 0.0
    return NodeCost(node.name, node.op, target_name(node.target), flops, read, written, parameters, seconds)


def _seconds(
    root: nn.Module,
    node: Node,
    flops: int,
    moved: int,
    weights: int,
    args: tuple[Any, ...],
    out: Any,
    device: Device,
) -> float:
    tensors = _tensors(args)
    dtype = tensors[0].dtype if tensors else torch.float32
    kind = kind_of(root, node)
    if kind == "conv" and node.op == "call_module":
        kind = _kind_of_conv(submodule(root, str(node.target)))
    elif kind in ("linear", "attention"):
        kind = "matmul"
    elif kind == "conv_transpose":
        kind = "conv"
    operations = float(flops)
    if "max_pool" in device.kinds and called(root, node) == "max_pool2d" and _tensors(out):
        kind, operations = "max_pool", _tensors(out)[0].numel() * _window(root, node)
    return device.seconds(operations, device.rate(dtype, kind), moved, weights)


def _kind_of_conv(module: Any) -> str:
    """The kinds of convolution whose CPU kernels differ in speed."""
    if module.groups > 1 and module.groups == module.in_channels:
        return "depthwise"
    if module.in_channels // module.groups <= 4:
        return "stem"
    if any(size != 1 for size in module.kernel_size):
        return "conv"
    return "pointwise" if all(step == 1 for step in module.stride) else "strided"


def _window(root: nn.Module, node: Node) -> int:
    """Elements that a pooling reads for each result."""
    module: Any = submodule(root, str(node.target)) if node.op == "call_module" else None
    size = argument(node, 1, "kernel_size", 1) if module is None else module.kernel_size
    return size * size if isinstance(size, int) else size[0] * size[-1]


_VIEW_NAMES = frozenset(
    (
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "transpose",
        "permute",
        "t",
        "expand",
        "expand_as",
        "view_as",
        "chunk",
        "split",
        "unbind",
        "narrow",
        "select",
        "swapaxes",
        "movedim",
        "detach",
        "getitem",
        "getattr",
        "size",
        "dim",
        "numel",
        "stride",
        "contiguous",
        "T",
        "mT",
        "broadcast_to",
        "identity",
    )
)


def is_view(root: nn.Module, node: Node) -> bool:
    """Whether the node moves no data (a reshape is taken to be a view)."""
    if is_dropout_off(root, node) or called(root, node) in ("identity", "flatten", "reshape"):
        return True
    return node.op in ("call_function", "call_method") and library_name(node.target) in _VIEW_NAMES


def _tensors(value: object) -> list[TensorMeta]:
    found: list[TensorMeta] = []
    map_values(value, lambda v: found.append(v) if isinstance(v, TensorMeta) else None)
    return found


class _Memory:
    """Bytes alive during a run: a value is freed after its last use, a view keeps its base alive."""

    def __init__(self, root: GraphModule) -> None:
        self.root = root
        self.base: dict[Node, Node] = {}
        self.alive: dict[Node, int] = {}
        self.uses: dict[Node, int] = {}
        self.now = self.peak = 0
        self.peak_node = ""

    def hold(self, node: Node, value: Any) -> None:
        """An input: the caller holds it for the whole run."""
        self.base[node] = node
        self.uses[node] = len(node.users) + 1
        self.alive[node] = sum(t.nbytes for t in _tensors(value))
        self._grow(node, self.alive[node])

    def step(self, node: Node, value: Any) -> None:
        changed = mutates(self.root, node)
        shares = changed or (node.all_input_nodes[0] if is_view(self.root, node) and node.all_input_nodes else None)
        if node.op == "get_attr":
            self.base[node], self.alive[node], self.uses[node] = node, 0, len(node.users)
        elif shares is not None:
            base = self.base[node] = self.base[shares]
            self.uses[base] += len(node.users)
        else:
            self.base[node], self.uses[node] = node, len(node.users)
            self.alive[node] = sum(t.nbytes for t in _tensors(value))
            self._grow(node, self.alive[node])
            if not node.users:
                self._free(node)
        for source in node.all_input_nodes:
            base = self.base[source]
            self.uses[base] -= 1
            if self.uses[base] == 0:
                self._free(base)

    def _grow(self, node: Node, size: int) -> None:
        self.now += size
        if self.now > self.peak:
            self.peak, self.peak_node = self.now, node.name

    def _free(self, node: Node) -> None:
        self.now -= self.alive.pop(node, 0)
