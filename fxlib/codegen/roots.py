"""What a graph module takes from its root: the parameters, buffers and submodules that its graph names."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.paths import Transplant, _assign_attr

__all__ = ["attribute_targets", "take"]


class _CodeOnlyModule(nn.Module):
    """The attributes of a graph module without its graph: the root that unpickling traces."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def attribute_targets(graph: Graph) -> dict[str, Node]:
    """The dotted paths that a graph calls or reads, each with the first node that does."""
    targets: dict[str, Node] = {}
    for node in graph.nodes:
        if node._op == "call_module" or node._op == "get_attr":
            path = node._target
            assert isinstance(path, str), f"Expected target to be str, got {type(path)}"
            targets.setdefault(path, node)
    return targets


def take(root: nn.Module | dict[str, Any], module: nn.Module, targets: Mapping[str, Node]) -> None:
    """Copy into a new graph module what its graph refers to; see ``GraphModule`` for the arguments and errors."""
    if isinstance(root, nn.Module):
        module.training = getattr(root, "training", module.training)
        transplant = Transplant(root, module)
        if isinstance(root, _CodeOnlyModule):
            for entries in (root.named_children(), root.named_buffers(), root.named_parameters()):
                transplant.take(name for name, _ in entries)
        transplant.take(targets)
    elif isinstance(root, dict):
        _take_from_table(root, module, targets)
    else:
        raise RuntimeError(f"Unsupported type {root} passed for root!")


def _take_from_table(table: dict[str, Any], module: nn.Module, targets: Mapping[str, Node]) -> None:
    missing = next((path for path in targets if path not in table), None)
    if missing is not None:
        raise RuntimeError(
            f"Node {targets[missing]} referenced target {missing} but that target was not provided in ``root``!"
        )
    # Parents first, or a child would be lost when its parent replaces the module made for it.
    for path in sorted(targets, key=lambda path: path.count(".")):
        _assign_attr(table[path], module, path)
