"""Rewriting a float graph into 8-bit form, by a plan and calibrated ranges.

Every value has a float form, an 8-bit form, or both, created on first use. Two forms of result: *kernels*, with modules
that call int8 kernels, and *qdq*, float operators between explicit `quantize` and `dequantize`, the form from which
other engines are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg
from fxlib.passes.calls import argument, called, module_of
from fxlib.passes.edits import in_order
from fxlib.passes.quantize.functions import (
    conv2d_of_levels,
    dequantize,
    dequantize_weight,
    quantize,
    quantize_symmetric,
    quantized_add,
    quantized_max_pool2d,
    quantized_relu,
)
from fxlib.passes.quantize.layers import QuantizedConv2d, QuantizedLinear
from fxlib.passes.quantize.observers import QParams, weight_scales
from fxlib.passes.quantize.plan import Layer, Plan, carried

__all__ = ["to_kernels", "to_qdq"]

_IN_PLACE_TOO = frozenset((F.selu, F.elu, F.silu, F.mish, F.hardswish, F.hardsigmoid, F.leaky_relu, F.celu))


def to_kernels(root: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool = True) -> GraphModule:
    """A new GraphModule whose planned layers run on int8 kernels; values between them stay 8-bit."""
    return _Converter(root, plan, ranges, per_channel).convert()


def wanting_eight_bits(graph: Graph, plan: Plan) -> set[Node]:
    """Values that some 8-bit operator reads; a carrier or a sum counts only if its own result is read in 8 bits."""
    layer_of = {layer.last: layer for layer in plan.layers.values()}
    sum_of = {last: add for add, last in plan.sums.items()}
    wanted: set[Node] = {layer.node.args[0] for layer in plan.layers.values()}  # type: ignore[misc]
    wanted |= {layer.other for layer in plan.layers.values() if layer.other is not None}
    for node in reversed(graph.nodes):
        if node in wanted and node not in layer_of:
            if node in plan.carriers:
                wanted.update(carried(node))
            elif node in sum_of:
                wanted.update(sum_of[node].all_input_nodes)
    return wanted


class _Converter:
    def __init__(self, root: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool) -> None:
        self.root, self.plan, self.ranges, self.per_channel = root, plan, ranges, per_channel
        self.graph = Graph()
        self.float_form: dict[Node, Node] = {}
        self.byte_form: dict[Node, Node] = {}
        self.wanted = wanting_eight_bits(root.graph, plan)
        self.modules: dict[str, nn.Module] = {}
        self.layer_of = {layer.last: layer for layer in plan.layers.values()}
        self.sum_of = {last: add for add, last in plan.sums.items()}
        self.additions = {u for ly in plan.layers.values() if ly.other is not None for u in ly.node.users}

    def convert(self) -> GraphModule:
        for node in self.root.graph.nodes:
            if node in self.plan.swallowed and node not in self.layer_of:
                continue
            if node in self.layer_of:
                self._layer(self.layer_of[node])
            elif node in self.sum_of and node in self.wanted:
                self._sum(self.sum_of[node], node)
            elif node in self.sum_of and self.sum_of[node] is not node:
                self._copy(self.sum_of[node])
                self._copy(node)
            elif node in self.plan.carriers and self._carry_bytes(node):
                self._carrier(node)
            else:
                self._copy(node)
        for path, module in self.modules.items():
            self.root.add_submodule(path, module)
        result = GraphModule(self.root, self.graph)
        for path in self.modules:
            self.root.delete_submodule(path)
        result.delete_all_unused_submodules()
        result.graph.lint()
        return result.eval()

    def _float(self, node: Node) -> Node:
        if node not in self.float_form:
            q = self.ranges[node]
            self.float_form[node] = self.graph.call_function(dequantize, (self.byte_form[node], q.scale, q.zero_point))
        return self.float_form[node]

    def _bytes(self, node: Node) -> Node:
        if node not in self.byte_form:
            q = self.ranges[node]
            self.byte_form[node] = self.graph.call_function(quantize, (self._float(node), q.scale, q.zero_point))
        return self.byte_form[node]

    def _copy(self, node: Node) -> None:
        if self._into_layer(node):
            return
        made = self.float_form[node] = self.graph.node_copy(node, self._float)
        source = node.args[0] if node.args else None
        if (
            (
                node.op == "call_function"
                and node.target in _IN_PLACE_TOO
                and source in self.layer_of
                and len(node.kwargs) == 0
            )
            and len(node.args) == 1
            and len(source.users) == 1
        ):  # type: ignore[union-attr]
            made.kwargs = {"inplace": True}  # it is the only reader of the layer's result

    def _into_layer(self, node: Node) -> bool:
        """Fuse an ELU or SELU into a wide layer if it is the only reader of the float result."""
        source = node.all_input_nodes[0] if len(node.all_input_nodes) == 1 else None
        parameters = _elu_parameters(self.root, node)
        if source is None or parameters is None or len(source.users) != 1 or source not in self.layer_of:
            return False
        made = self.float_form.get(source)
        layer = None if made is None else self.modules.get(str(made.target))
        if not isinstance(layer, QuantizedLinear) or not layer.wide:
            return False
        layer.elu = parameters
        self.float_form[node] = self.float_form[source]
        return True

    def _needs_float(self, node: Node) -> bool:
        """Whether an operator that stays in float reads the value."""
        for user in node.users:
            in_bytes = (
                user in self.plan.layers
                or user in self.additions
                or (user in self.plan.sums and self.plan.sums[user] in self.wanted)
                or (user in self.plan.carriers and user in self.wanted)
            )
            if not in_bytes:
                return True
        return False

    def _layer(self, layer: Layer) -> None:
        node, source = layer.node, layer.node.args[0]
        module: Any = self.root.get_submodule(str(node.target))
        last = layer.last
        keep = layer.other is not None or (last in self.wanted and not self._needs_float(last))
        out = self.ranges[last] if keep else None
        kind = QuantizedConv2d if isinstance(module, nn.Conv2d) else QuantizedLinear
        place = str(node.target)
        if any(place.startswith(f"{each.target}.") for each in self.root.graph.find_nodes(op="call_module")):
            place = place.replace(".", "_")  # the module around it is called as a whole and stays
        path, index = f"{place}_int8", 1
        while path in self.modules:
            path, index = f"{place}_int8_{index}", index + 1
        options: dict[str, Any] = {} if layer.other is None else {"other": self.ranges[layer.other]}
        self.modules[path] = kind(module, self.ranges[source], out, layer.post, self.per_channel, **options)  # type: ignore[index]
        inputs = [self._bytes(n) for n in (source, layer.other) if isinstance(n, Node)]
        made = self.graph.call_module(path, tuple(inputs))
        made.meta = {k: v for k, v in last.meta.items() if k not in ("tensor_meta", "val")}
        (self.float_form if out is None else self.byte_form)[last] = made

    def _sum(self, add: Node, last: Node) -> None:
        arguments: list[Any] = []
        for source in add.all_input_nodes:
            q = self.ranges[source]
            arguments += [self._bytes(source), q.scale, q.zero_point]
        q = self.ranges[last]
        self.byte_form[last] = self.graph.call_function(
            quantized_add, (*arguments, q.scale, q.zero_point, last is not add)
        )

    def _carry_bytes(self, node: Node) -> bool:
        return node in self.wanted or all(source not in self.float_form for source in carried(node))

    def _carrier(self, node: Node) -> None:
        if called(self.root, node) == "relu":
            made = self.graph.call_function(
                quantized_relu, (self._bytes(carried(node)[0]), self.ranges[node].zero_point)
            )
        elif called(self.root, node) == "max_pool2d":
            made = self.graph.call_function(
                quantized_max_pool2d, (self._bytes(carried(node)[0]), *_pooling(self.root, node))
            )
        else:
            moved = set(carried(node))

            def form(n: Node) -> Node:
                return self._bytes(n) if n in moved else self._float(n)

            made = self.graph.create_node(
                node.op, node.target, map_arg(node.args, form), map_arg(node.kwargs, form), node.name
            )
        self.byte_form[node] = made


def _elu_parameters(root: GraphModule, node: Node) -> tuple[float, float, float] | None:
    """Alpha, scale and input scale of an ELU or SELU."""
    name, module = called(root, node), module_of(root, node)
    if name == "selu":
        return (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)
    if name == "elu":
        return (float(getattr(module, "alpha", argument(node, 1, "alpha", 1.0))), 1.0, 1.0)
    return None


def _some(
    special: Collection[Node | None], change: Callable[[Node], Node], made: dict[Node, Node]
) -> Callable[[Node], Node]:
    """A mapping of arguments with replacements for some nodes."""
    return lambda n: change(n) if n in special else made[n]


def _pooling(root: GraphModule, node: Node) -> tuple[Any, ...]:
    module: Any = module_of(root, node)
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    if module is not None:
        return tuple(getattr(module, name) for name in names)
    return tuple(
        argument(node, i, n, d) for i, (n, d) in enumerate(zip(names, (None, None, 0, 1, False), strict=False), 1)
    )


def to_qdq(root: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool = True) -> GraphModule:
    """A new GraphModule in exchange form: float operators, with quantize and dequantize around every value that the
    plan has in 8 bits.

    A layer becomes ``F.conv2d`` or ``F.linear`` on a dequantized int8 weight (a buffer with its scales beside it), and
    keeps its name.
    """
    return _Exchange(root, plan, ranges, per_channel).convert()


class _Exchange:
    """Builds the exchange form."""

    def __init__(self, root: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool) -> None:
        self.root, self.plan, self.ranges, self.per_channel = root, plan, ranges, per_channel
        self.graph = Graph()
        self.made: dict[Node, Node] = {}
        self.rounded: dict[Node, Node] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.wanted = wanting_eight_bits(root.graph, plan)
        self.additions = {
            user: layer.other for layer in plan.layers.values() if layer.other is not None for user in layer.node.users
        }

    def convert(self) -> GraphModule:
        for node in self.root.graph.nodes:
            if node in self.plan.layers and node not in self.additions:
                self.made[node] = self._layer(node)
                self.made[node]._copy_origin(node)
            else:
                self.made[node] = self.graph.node_copy(node, _some(self._read(node), self._in_eight_bits, self.made))
        return self._module()

    def _read(self, node: Node) -> Collection[Node]:
        """The inputs that a node reads in 8 bits."""
        plan, wanted = self.plan, self.wanted
        if node in self.additions:
            return (self.additions[node],)
        reads_bytes = (node in wanted and node in plan.carriers) or plan.sums.get(node) in wanted
        return carried(node) if reads_bytes else ()

    def _in_eight_bits(self, node: Node) -> Node:
        if node not in self.rounded:
            q = self.ranges[node]
            if q.signed:
                stored = self.graph.call_function(quantize_symmetric, (self.made[node], q.scale))
            else:
                stored = self.graph.call_function(quantize, (self.made[node], q.scale, q.zero_point))
            self.rounded[node] = self.graph.call_function(dequantize, (stored, q.scale, q.zero_point))
        return self.rounded[node]

    def _layer(self, node: Node) -> Node:
        module: Any = self.root.get_submodule(str(node.target))
        name = str(node.target).replace(".", "_")
        source = self._in_eight_bits(node.args[0])  # type: ignore[arg-type]
        scales = weight_scales(module.weight, self.per_channel)
        steps = module.weight.detach() / scales.view(-1, *[1] * (module.weight.dim() - 1))
        levels = steps.round().clamp(-127, 127)
        is_convolution = isinstance(module, nn.Conv2d)
        more = (module.stride, module.padding, module.dilation, module.groups) if is_convolution else ()
        by_channel = is_convolution and self.ranges[node.args[0]].signed  # type: ignore[index]
        form = (-1, 1, 1) if by_channel else (-1,)
        bias = None if module.bias is None else self._buffer(f"{name}_bias", module.bias.detach().view(form))
        if by_channel:
            scales = scales.view(form)
            parts = (self._buffer(f"{name}_weight_levels", levels), self._buffer(f"{name}_weight_scales", scales))
            return self.graph.call_function(conv2d_of_levels, (source, *parts, bias, *more), name=node.name)
        stored = self._buffer(f"{name}_weight_int8", levels.to(torch.int8))
        parts = (stored, self._buffer(f"{name}_weight_scales", scales))
        weight = self.graph.call_function(dequantize_weight, parts)
        target = F.conv2d if is_convolution else F.linear
        return self.graph.call_function(target, (source, weight, bias, *more), name=node.name)

    def _buffer(self, name: str, value: torch.Tensor) -> Node:
        self.buffers[name] = value
        return self.graph.get_attr(name)

    def _module(self) -> GraphModule:
        root = self.root
        for name, value in self.buffers.items():
            root.register_buffer(name, value)
        result = GraphModule(root, self.graph)
        for name in self.buffers:
            delattr(root, name)
        return in_order(result).eval()
