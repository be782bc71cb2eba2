"""Conv-BN fusion: a batch norm that follows a convolution or linear layer becomes part of its weights.

Preconditions: evaluation mode, nothing but the batch norm reads the values of the layer's result (its shape, dtype and
device may be read), and the graph writes to no parameter of either. Places where they do not hold are left unchanged
and reported with the reason. Each fused call gets its own layer and parameters, so that a layer, batch norm or
parameter that is used elsewhere keeps its values there.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import Target
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.ir.paths import read
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import called, is_dropout_off, metadata_read, value_users
from fxlib.passes.checks import remove_checks
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.edits import free_path, place_module, yield_to
from fxlib.passes.folding import NormParameters, fold_weight_and_bias

__all__ = ["Fused", "FusionReport", "Refused", "find_conv_bn", "fuse_conv_bn"]


@dataclass(frozen=True)
class Fused:
    """One fusion: the nodes' names before it, the modules' paths (None where functional), and what was fused."""

    layer: str
    norm: str
    layer_path: str | None
    norm_path: str | None
    kind: str


@dataclass(frozen=True)
class Refused:
    """A batch norm that stays, and why."""

    norm: str
    norm_path: str | None
    reason: str


@dataclass
class FusionReport:
    """What `fuse_conv_bn` did, or would do."""

    fused: list[Fused] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.fused)} fused, {len(self.refused)} left"]
        lines += [f"  {f.norm_path or f.norm} into {f.layer_path or f.layer} ({f.kind})" for f in self.fused]
        lines += [f"  {r.norm_path or r.norm} left: {r.reason}" for r in self.refused]
        return "\n".join(lines)


class _NotFusable(Exception):
    """The reason, as text for the report."""


_LAYERS: dict[type, tuple[int | None, bool]] = {  # spatial dimensions (None: linear), transposed
    nn.Conv1d: (1, False),
    nn.Conv2d: (2, False),
    nn.Conv3d: (3, False),
    nn.ConvTranspose1d: (1, True),
    nn.ConvTranspose2d: (2, True),
    nn.ConvTranspose3d: (3, True),
    nn.Linear: (None, False),
}
_FUNCTIONS: dict[Target, tuple[int | None, bool]] = {F.linear: (None, False)}
for _home in (torch, F):
    for _rank in (1, 2, 3):
        _FUNCTIONS[getattr(_home, f"conv{_rank}d")] = (_rank, False)
        _FUNCTIONS[getattr(_home, f"conv_transpose{_rank}d")] = (_rank, True)
_NORMS: dict[type, tuple[int, ...]] = {  # ranks of the input that the module takes
    nn.BatchNorm1d: (2, 3),
    nn.BatchNorm2d: (4,),
    nn.BatchNorm3d: (5,),
    nn.SyncBatchNorm: (2, 3, 4, 5),
}
_ANY_RANK = (2, 3, 4, 5)


def find_conv_bn(graph_module: GraphModule) -> FusionReport:
    """What `fuse_conv_bn` would do to this graph, without doing it."""
    check_traced(graph_module, "find_conv_bn()")
    report = FusionReport()
    written = Aliases(graph_module).changed_state()
    for norm in _norm_nodes(graph_module):
        _judge(graph_module, norm, written, report)
    return report


def fuse_conv_bn(graph_module: GraphModule) -> GraphModule:
    """Fold every batch norm that can be into the layer before it; changes and returns ``graph_module``.

    The report is in ``graph_module.meta["fuse_conv_bn"]``. Run shape propagation before: after linear layers and 1-D
    convolutions, and before norms that take any rank (functions, `SyncBatchNorm`), only a known rank shows whether the
    norm runs over the layer's channels; otherwise these are left. Known shapes also remove the assertions on ranks and
    dtypes that they prove.
    """
    check_traced(graph_module, "fuse_conv_bn()")
    report = FusionReport()
    made: dict[Hashable, str] = {}
    remove_checks(graph_module)
    written = Aliases(graph_module).changed_state()
    for norm in _norm_nodes(graph_module):
        found = _judge(graph_module, norm, written, report)
        if found is None:
            continue
        chain, parameters = found
        layer, given = chain[0], chain[-1]
        replace = _fuse_module if layer.op == "call_module" else _fuse_function
        replace(graph_module, layer, norm, parameters, made)
        given.meta.update({k: v for k, v in norm.meta.items() if k in ("tensor_meta", "val", "type", "example_value")})
        yield_to(norm, given)
    return eliminate_dead_code(graph_module, fuse_conv_bn=report)


def _norm_nodes(graph_module: GraphModule) -> list[Node]:
    return [n for n in graph_module.graph.nodes if _is_norm(graph_module, n)]


def _is_norm(graph_module: GraphModule, node: Node) -> bool:
    if node.op == "call_function":
        return node.target in (F.batch_norm, torch.batch_norm)
    return node.op == "call_module" and type(graph_module.get_submodule(str(node.target))) in _NORMS


def _judge(
    graph_module: GraphModule, norm: Node, written: set[Node], report: FusionReport
) -> tuple[list[Node], NormParameters] | None:
    """The nodes from a layer to the batch norm's input, and the norm's parameters; None if it must stay."""
    path = str(norm.target) if norm.op == "call_module" else None
    try:
        given = norm.args[0] if norm.args else norm.kwargs.get("input")
        if not isinstance(given, Node):
            raise _NotFusable("its input is no node")
        parameters = _norm_parameters(graph_module, norm)
        chain = _chain(graph_module, given)
        source = chain[0]
        kind = _check_layer(graph_module, chain, norm, parameters)
        for node in (source, norm):
            if node in written:
                raise _NotFusable(f"the graph writes to a parameter or buffer of {node.name}")
    except _NotFusable as reason:
        report.refused.append(Refused(norm.name, path, str(reason)))
        return None
    layer_path = str(source.target) if source.op == "call_module" else None
    report.fused.append(Fused(source.name, norm.name, layer_path, path, kind))
    return chain, parameters


def _chain(graph_module: GraphModule, given: Node) -> list[Node]:
    """The nodes from the computing layer to ``given``; those between keep its channels."""
    chain = [given]
    while True:
        source = chain[0].args[0] if chain[0].args else None
        if not isinstance(source, Node) or not _hands_channels_on(graph_module, source, chain[0]):
            return chain
        chain.insert(0, source)


def _hands_channels_on(graph_module: GraphModule, source: Node, node: Node) -> bool:
    """Whether a node does nothing, or only reshapes a linear layer's result to rows ``[-1, features]``."""
    name = called(graph_module, node)
    if name == "identity" or is_dropout_off(graph_module, node):
        return True
    before, after = (_shape(each) for each in (source, node))
    if before is None or after is None or len(after) != 2 or len(before) < 2 or before[-1] != after[-1]:
        return False
    if name == "flatten":
        return True
    return name == "reshape" and isinstance(node.args[-1], int) and node.args[-1] == after[-1]


def _shape(node: Node) -> Any:
    return getattr(node.meta.get("tensor_meta"), "shape", None)


# The batch norm ----------------------------------------------------------------------------------------------------

_BATCH_NORM_ARGUMENTS = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_TORCH_BATCH_NORM_ARGUMENTS = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")


def _norm_parameters(graph_module: GraphModule, norm: Node) -> NormParameters:
    if norm.op == "call_module":
        module: Any = graph_module.get_submodule(str(norm.target))
        if module.training:
            raise _NotFusable("it is in training mode and normalises by the batch's own statistics; call eval() first")
        if module.running_mean is None or module.running_var is None:
            raise _NotFusable("it has no running statistics (track_running_stats=False)")
        _refuse_hooks(module, "it")
        return NormParameters(module.running_mean, module.running_var, module.weight, module.bias, module.eps)
    names = _BATCH_NORM_ARGUMENTS if norm.target is F.batch_norm else _TORCH_BATCH_NORM_ARGUMENTS
    given = {**dict(zip(names, norm.args, strict=False)), **norm.kwargs}
    training = given.get("training", False)
    if training is not False:
        raise _NotFusable("its `training` argument is not False")
    mean, var = (_constant(graph_module, given.get(k), f"its {k}") for k in ("running_mean", "running_var"))
    if mean is None or var is None:
        raise _NotFusable("it has no running statistics")
    gamma, beta = (_constant(graph_module, given.get(k), f"its {k}") for k in ("weight", "bias"))
    eps = given.get("eps", 1e-5)
    if not isinstance(eps, (int, float)):
        raise _NotFusable("its eps is computed")
    return NormParameters(mean, var, gamma, beta, float(eps))


def _constant(graph_module: GraphModule, value: object, what: str) -> torch.Tensor | None:
    if value is None:
        return None
    if isinstance(value, Node) and value.op == "get_attr":
        found = read(graph_module, str(value.target))
        if torch.is_tensor(found):
            return found
    raise _NotFusable(f"{what} is computed, not a parameter or buffer")


# The layer before it ------------------------------------------------------------------------------------------------


def _check_layer(graph_module: GraphModule, chain: list[Node], norm: Node, parameters: NormParameters) -> str:
    """The kind of fusion; raises with the reason where there is none."""
    layer, given = chain[0], chain[-1]
    if layer.op == "call_module":
        module: Any = graph_module.get_submodule(str(layer.target))
        known = _LAYERS.get(type(module))
        if known is None:
            raise _NotFusable(
                f"before it is {type(module).__name__} {layer.target!r}, not a convolution or linear layer"
            )
        _refuse_hooks(module, f"the layer {layer.target!r}")
        weight, bias, groups = module.weight, module.bias, getattr(module, "groups", 1)
    elif layer.op == "call_function" and layer.target in _FUNCTIONS:
        known = _FUNCTIONS[layer.target]
        _, weight, bias, groups = _function_parts(graph_module, layer, known)
    else:
        raise _NotFusable(f"before it is {layer.format_node() or layer.name}, not a convolution or linear layer")
    for node, reader in zip(chain, [*chain[1:], norm], strict=True):
        others = [user.name for user in value_users(node) if user is not reader]
        if others:
            raise _NotFusable(
                f"the result of {node.name} is also used by {', '.join(others)}: folded, it would be computed twice"
            )
    if sum(1 for a in norm.all_input_nodes if a is given) != 1 or given in norm.args[1:]:
        raise _NotFusable(f"the result of {layer.name} is also a parameter of the batch norm")
    spatial, transposed = known
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if parameters.mean.numel() != channels:
        raise _NotFusable(f"it normalises {parameters.mean.numel()} channels, the layer before it gives {channels}")
    if not weight.dtype.is_floating_point:
        raise _NotFusable(f"the weight of {layer.name} is {weight.dtype}")
    if parameters.mean.device != weight.device:
        raise _NotFusable(f"it is on {parameters.mean.device}, the layer on {weight.device}")
    _check_rank(given, spatial, _ranks_taken(graph_module, norm))
    del bias
    return ("linear" if spatial is None else f"conv{'_transpose' if transposed else ''}{spatial}d") + "-bn"


def _ranks_taken(graph_module: GraphModule, norm: Node) -> tuple[int, ...]:
    return _NORMS[type(graph_module.get_submodule(str(norm.target)))] if norm.op == "call_module" else _ANY_RANK


def _check_rank(given: Node, spatial: int | None, taken: tuple[int, ...]) -> None:
    """Check that the layer's channels are dimension 1, over which the batch norm runs."""
    shape = _shape(given)
    rank = _asserted_rank(given) if shape is None else len(shape)
    wanted = 2 if spatial is None else spatial + 2
    if rank is None and spatial is None:
        raise _NotFusable(
            "the rank of the linear layer's result is not known, and a batch norm after a 3-D one runs over another "
            "dimension; propagate shapes first"
        )
    if rank is None and spatial is not None and spatial + 1 in taken:
        raise _NotFusable(
            "the rank of the convolution's result is not known, and a batch norm after one without a batch runs over "
            "another dimension; propagate shapes first"
        )
    if rank is not None and rank != wanted:
        raise _NotFusable(f"{given.name} gives a {rank}-D result, whose dimension 1 is not the layer's channels")


def _asserted_rank(node: Node) -> int | None:
    """The rank that an assertion of the program states: ``torch._assert(x.ndim == 4, …)``."""
    reads = [user for user in node.users if metadata_read(user) in ("ndim", "dim", "ndimension")]
    for test in (user for rank in reads for user in rank.users):
        if test.target is operator.eq and any(user.target is torch._assert for user in test.users):
            return next((number for number in test.args if isinstance(number, int)), None)
    return None


def _refuse_hooks(module: nn.Module, who: str) -> None:
    if is_altered(module) or module._backward_hooks:
        raise _NotFusable(f"{who} has hooks or functions of its own that fusion would lose")
    if "parametrizations" in module._modules:
        raise _NotFusable(f"{who} has parametrized weights")


def _fuse_module(
    graph_module: GraphModule, layer: Node, norm: Node, parameters: NormParameters, made: dict[Hashable, str]
) -> None:
    """Point the layer's node to a fused copy; further calls of the same layer and norm share the copy."""
    module: Any = graph_module.get_submodule(str(layer.target))
    key = (
        id(module),
        id(parameters.mean),
        id(parameters.var),
        id(parameters.gamma),
        id(parameters.beta),
        parameters.eps,
    )
    if key not in made:
        groups, transposed = getattr(module, "groups", 1), _LAYERS[type(module)][1]
        weight, bias = fold_weight_and_bias(
            module.weight, module.bias, parameters, transposed=transposed, groups=groups
        )
        fused = copy.copy(module)
        fused._parameters = dict(module._parameters)
        fused._buffers, fused._modules = dict(module._buffers), dict(module._modules)
        fused.weight = nn.Parameter(weight, module.weight.requires_grad)
        fused.bias = nn.Parameter(bias, module.weight.requires_grad)
        made[key] = place_module(graph_module, fused, layer, "_fused")
    layer.target = made[key]


_ARGUMENTS: dict[bool | None, tuple[str, ...]] = {
    None: ("input", "weight", "bias"),
    False: ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    True: ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"),
}


def _function_parts(
    graph_module: GraphModule, layer: Node, known: tuple[int | None, bool]
) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor | None, int]:
    names = _ARGUMENTS[None if known[0] is None else known[1]]
    given = {**dict(zip(names, layer.args, strict=False)), **layer.kwargs}
    weight = _constant(graph_module, given.get("weight"), f"the weight of {layer.name}")
    if weight is None:
        raise _NotFusable(f"{layer.name} has no weight")
    bias = _constant(graph_module, given.get("bias"), f"the bias of {layer.name}")
    groups = given.get("groups", 1)
    if not isinstance(groups, int):
        raise _NotFusable(f"the groups of {layer.name} are computed")
    return given, weight, bias, groups


def _fuse_function(
    graph_module: GraphModule, layer: Node, norm: Node, parameters: NormParameters, made: dict[Hashable, str]
) -> None:
    known = _FUNCTIONS[layer.target]
    given, weight, bias, groups = _function_parts(graph_module, layer, known)
    new_weight, new_bias = fold_weight_and_bias(weight, bias, parameters, transposed=known[1], groups=groups)
    for name, value in (("weight", new_weight), ("bias", new_bias)):
        attribute = free_path(graph_module, f"{layer.name}_fused_{name}")
        setattr(graph_module, attribute, nn.Parameter(value, weight.requires_grad))
        with graph_module.graph.inserting_before(layer):
            given[name] = graph_module.graph.get_attr(attribute)
    first = given.pop("input")
    layer.args = (first, given.pop("weight"), given.pop("bias"))
    layer.kwargs = given
