"""Graph modules pickled as their code, which is traced again where they are read."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.package import Importer, PackageExporter, PackageImporter

from fxlib.codegen.compile import _forward_from_src
from fxlib.codegen.imports import _format_import_block
from fxlib.codegen.roots import _CodeOnlyModule

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule

__all__ = ["reduce_graph_module", "reduce_package_graph_module"]

# The default tracer, set by `fxlib.capture.tracer`, since this folder must not import it.
default_tracer: Any = None


def pickled(module: "GraphModule", importer: Importer) -> tuple[dict[str, Any], str]:
    """The pickled form of a graph module: its attributes without the graph, and the imports of its code."""
    body = {name: value for name, value in vars(module).items() if name != "_graph"}
    return body, _format_import_block(module.recompile().globals, importer)


def packaged(module: "GraphModule", exporter: PackageExporter) -> tuple[dict[str, Any], str]:
    """The same for an archive of ``torch.package``: the attributes, and the name of the module that has the code."""
    # Like torch itself, fxlib is not put into the archive, unless an earlier pattern says otherwise.
    exporter.extern(["fxlib", "fxlib.**"], allow_empty=True)
    body, imports = pickled(module, exporter.importer)
    home = f"fx-generated._{exporter.get_unique_id()}"
    exporter.save_source_string(home, imports + module.code)
    return {**body, "_graphmodule_cls_name": type(module).__name__}, home


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """Restore a graph module from its pickled form: its attributes and the imports of its code."""
    source = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + source, {}), body)


def reduce_package_graph_module(
    importer: PackageImporter, body: dict[str, Any], generated_module_name: str
) -> nn.Module:
    """The same from a ``torch.package`` archive."""
    return _deserialize_graph_module(importer.import_module(generated_module_name).forward, body)


def _deserialize_graph_module(
    forward: Callable[..., Any], body: dict[str, Any], graph_module_cls: type | None = None
) -> nn.Module:
    """Trace generated code again, every module being a leaf."""
    from fxlib.codegen.graph_module import GraphModule

    root = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    tracer_cls = body.get("_tracer_cls") or default_tracer
    # The generated code already contains the modules that the user's tracer traced into.
    leaf_tracer = type("KeepModules", (tracer_cls,), {"is_leaf_module": lambda tracer, module, path: True})
    graph = leaf_tracer().trace(root, **body.get("_tracer_extras") or {})
    graph._tracer_cls = tracer_cls
    made = (graph_module_cls or GraphModule)(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name in [name for name in body if not hasattr(made, name)]:
        setattr(made, name, body[name])
    return made
