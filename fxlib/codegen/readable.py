"""Graph modules as readable classes, with shapes and source lines beside the operations, and nested modules inside."""

from typing import Any

from torch import nn

from fxlib.codegen.folder import indented
from fxlib.ir.graph import Graph

__all__: list[str] = []


def class_text(module: nn.Module, name: str, options: dict[str, Any]) -> str:
    """The code of a module and of the graph modules in it.

    Args:
        module: has a graph.
        name: the name of its class in the text.
        options: for ``Graph.python_code``.
    """
    graph = getattr(module, "graph", None)
    assert isinstance(graph, Graph), "print_readable must be used on a module with a graph"
    children = ((name, child) for name, child in module.named_children() if hasattr(child, "graph"))
    parts = [graph.python_code("self", verbose=True, **options).src.strip() + "\n"]
    parts.extend(class_text(child, name, options) for name, child in children)
    return "\n".join([f"class {name}(torch.nn.Module):", *map(indented, parts)])


def _print_readable(
    module: nn.Module,
    module_name: str,
    print_output: bool = True,
    include_stride: bool = False,
    include_device: bool = False,
    colored: bool = False,
    expanded_def: bool = False,
    additional_meta: list[str] | None = None,
) -> str:
    options = {
        "include_stride": include_stride,
        "include_device": include_device,
        "colored": colored,
        "expanded_def": expanded_def,
        "additional_meta": additional_meta,
    }
    text = class_text(module, module_name, options)
    if print_output:
        print(text)
    return text
