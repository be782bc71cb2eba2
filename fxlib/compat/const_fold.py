"""Constant folding at the first call: nodes that depend on attributes alone go into a separate graph, which runs once.

``fxlib.passes.fold_constants`` computes the values at once; this keeps them out until the module is called, so that
the parameters may still be loaded or moved.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import is_random
from fxlib.passes.utils.extraction import Extraction, results_of

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

_ATTRIBUTE = "_FX_CONST_FOLDED_ATTRS"


class FoldedGraphModule(GraphModule):
    """A GraphModule whose constants are computed by another one, ``const_subgraph_module``, before its first call.

    Args:
        root, graph: as for a GraphModule.
        const_subgraph: computes the constants; ``None`` where there are none.
        fx_const_folded_attrs_name: the attribute that is to hold them: a parameter, or a ``ParameterList`` where the
            graph's output is a tuple.
        device_for_folded_attrs: the device for a constant that is a Python number, which becomes a tensor of one
            element.
    """

    has_folding_been_run = False

    def __init__(
        self,
        root: nn.Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        # Programs read these attributes, so their names and values are torch.fx's.
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants; the first call does so itself.

        Raises:
            AssertionError: they have been computed.
        """
        name, compute = self.fx_const_folded_attrs_name, self.const_subgraph_module
        if name is None or compute is None:
            return
        assert not self.has_folding_been_run, "run_folding: the constants of this module have been computed"
        self.has_folding_been_run = True
        found = compute()
        several = isinstance(found, tuple)
        constants = [_parameter(value, self.device_for_folded_attrs) for value in (found if several else [found])]
        setattr(self, name, nn.ParameterList(constants) if several else constants[0])


def _parameter(value: Any, device: str) -> nn.Parameter:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor([value], device=device)
    return nn.Parameter(tensor, requires_grad=tensor.requires_grad)


def get_unique_attr_name_in_module(mod_traced: nn.Module, name: str) -> str:
    """``name``, made an identifier and numbered until ``mod_traced`` has no such attribute."""
    first = re.sub(r"^(?=\d)", "_", re.sub(r"[^0-9a-zA-Z_]+", "_", name))
    stem, underscore, number = first.rpartition("_")
    counted = bool(underscore) and number.isdigit()
    numbers = itertools.count(int(number) + 1 if counted else 1)
    names = itertools.chain([first], (f"{stem if counted else first}_{number}" for number in numbers))
    return next(free for free in names if not hasattr(mod_traced, free))


def split_const_subgraphs(
    module: nn.Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Separate the nodes that depend on attributes alone, to be computed once.

    A copy is returned; ``module`` is not changed. Random operators, and what the graph changes in place, stay.

    Example::

        folded = split_const_subgraphs(model)  # model: x + self.weight.t().contiguous()
        folded(x)                              # computes self.weight.t().contiguous(); later calls do not

    Args:
        module: traced unless it is a GraphModule.
        skip_folding_node_fn: returns True for nodes to leave, together with their users.
        device_for_folded_attrs: see ``FoldedGraphModule``.
    """
    module = adopted(module)
    gm = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(gm, skip_folding_node_fn)
    folded = list(
        dict.fromkeys(
            source
            for node in gm.graph.nodes
            if node not in constant
            for source in node.all_input_nodes
            if source in constant and source.op != "get_attr"
        )
    )
    if not folded:
        return FoldedGraphModule(gm, gm.graph)
    name = get_unique_attr_name_in_module(gm, _ATTRIBUTE)
    made = FoldedGraphModule(
        _with_attribute(gm, name, len(folded)),
        _rest(gm, constant, folded, name),
        _constants(gm, constant, folded),
        name,
        device_for_folded_attrs,
    )
    made.meta.update(gm.meta)
    return made


def _constant_nodes(gm: GraphModule, skip: Callable[[Node], bool] | None) -> set[Node]:
    changed = Aliases(gm).changed()
    constant: set[Node] = set()
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output") or node in changed or not constant.issuperset(node.all_input_nodes):
            continue
        if skip is not None and skip(node):
            continue
        if node.op == "get_attr" or not (node.is_impure() or is_random(gm, node)):
            constant.add(node)
    return constant


def _constants(gm: GraphModule, constant: set[Node], folded: list[Node]) -> Graph:
    """The graph that computes ``folded``."""
    part = Extraction(constant)
    for node in filter(constant.__contains__, gm.graph.nodes):
        part.add(node)
    part.give(folded, always_tuple=False)
    part.graph.eliminate_dead_code()
    return part.graph


def _rest(gm: GraphModule, constant: set[Node], folded: list[Node], attribute: str) -> Graph:
    """The graph of everything else, which reads ``folded`` from an attribute."""
    graph = Graph(tracer_cls=gm.graph._tracer_cls)
    graph._codegen = gm.graph._codegen
    copies: dict[Node, Node] = {}
    first = [node for node in gm.graph.nodes if node.op == "placeholder"]
    first += [node for node in gm.graph.nodes if node.op == "get_attr" and not constant.issuperset((node, *node.users))]
    for node in first:
        copies[node] = graph.node_copy(node)
    holder = graph.create_node("get_attr", attribute)
    for node, read in zip(folded, results_of(holder, len(folded), len(folded) > 1), strict=True):
        read.meta, read.type = node.meta.copy(), node.type
        copies[node] = read
    for node in gm.graph.nodes:
        if node not in constant and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.lint()
    return graph


def _with_attribute(gm: GraphModule, name: str, number: int) -> nn.Module:
    """The root of the folded module: ``gm``'s attributes, and an empty one under ``name``."""
    holder = nn.ParameterList() if number > 1 else nn.Parameter(torch.empty(0))
    root = copy.copy(gm)
    root._modules, root._parameters = root._modules.copy(), root._parameters.copy()
    setattr(root, name, holder)
    return root
