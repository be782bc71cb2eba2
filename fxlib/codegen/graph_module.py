"""GraphModule: a graph made into an ``nn.Module``, with the parameters it reads and a ``forward`` generated from it.

Writing the source is left to ``codegen``, compiling it to ``_source``.
"""

import contextlib
import copy
import itertools
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn
from torch.package import PackageExporter, PackageImporter, sys_importer

# Names that programs import from here although other files define them.
from fxlib.codegen.compile import (
    _DeferredForward,
    _format_import_block,
    _forward_from_src,
)
from fxlib.codegen.folder import indented, write_folder
from fxlib.codegen.function import PythonCode, _BoxedCodeGen, _override_sym_repr, _PyTreeCodeGen
from fxlib.codegen.statements import _is_from_torch  # noqa: F401
from fxlib.interop import torch_side
from fxlib.ir.graph import Graph
from fxlib.ir.names import _custom_builtins  # noqa: F401
from fxlib.ir.node import Node
from fxlib.ir.paths import (
    _assign_attr,
    _copy_attr,
    _copy_attrs,
)

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


# --- pickling ---------------------------------------------------------------------------------------------------------


class _CodeOnlyModule(nn.Module):
    """The attributes of a graph module without its graph: the root that unpickling traces."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """Make a graph module again from what was pickled: its attributes and the imports of its code."""
    source = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + source, {}), body)


def reduce_package_graph_module(
    importer: PackageImporter, body: dict[str, Any], generated_module_name: str
) -> nn.Module:
    """The same from a ``torch.package`` archive."""
    forward = importer.import_module(generated_module_name).forward
    return _deserialize_graph_module(forward, body)


# The tracer of modules that name none; `fxlib.capture.tracer` sets its own.
_default_tracer: Any = None


def _deserialize_graph_module(
    forward: Callable[..., Any], body: dict[str, Any], graph_module_cls: type | None = None
) -> nn.Module:
    """Trace generated code again, every module being a leaf."""
    _CodeOnlyModule.forward = forward  # type: ignore[method-assign]
    tracer_cls = body.get("_tracer_cls") or _default_tracer
    class_name = body.get("_graphmodule_cls_name", "GraphModule")

    class KeepModules(tracer_cls):  # type: ignore[misc, valid-type]
        # Whatever the user's tracer descended into is in the generated code already.
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    com = _CodeOnlyModule(body)
    extras = body.get("_tracer_extras") or {}
    graph = KeepModules().trace(com, **extras)
    graph._tracer_cls = tracer_cls
    module = (graph_module_cls or GraphModule)(com, graph, class_name=class_name)
    for name, value in body.items():
        if not hasattr(module, name):
            setattr(module, name, value)
    return module


# --- calls ------------------------------------------------------------------------------------------------------------


class _WrappedCall:
    """Calls a graph module; an error raised by a line of generated code is shown with the lines around it."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls = cls
        self.cls_call = cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        number = frame_summary.lineno or 1
        lines = linecache.getlines(frame_summary.filename)
        width = len(frame_summary.line or "")
        return "\n".join(
            [
                traceback.format_exc(),
                f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:",
                "".join(lines[number - 2 : number]),
                "~" * width + "~~~ <--- HERE",
                "\n".join(lines[number : number + 2]),
            ]
        )

    def __call__(self, obj: nn.Module, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            assert error.__traceback__
            innermost = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))[-1]
            if "eval_with_key" in innermost.filename:
                print(_WrappedCall._generate_error_message(innermost), file=sys.stderr)
                raise error.with_traceback(None)  # noqa: B904
            raise


def _call_wrapped(self: "GraphModule", *args: Any, **kwargs: Any) -> Any:
    return self._wrapped_call(self, *args, **kwargs)


class GraphModule(nn.Module):
    """An ``nn.Module`` generated from a graph.

    ``graph`` and ``code`` show what it computes. After editing ``graph``, call ``recompile``; assigning a graph does so
    by itself. Each instance is the only one of its class, so that its ``forward`` is a method like any other's.

    Example::

        traced = fxlib.symbolic_trace(model)
        for node in traced.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.nn.functional.gelu
        traced.recompile()
    """

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        # A copy's class descends from what the user derived, not from the class of the copied instance.
        for base in cls.__mro__:
            if base.__qualname__.split(".")[-1] != "GraphModuleImpl":
                cls = base
                break

        class GraphModuleImpl(cls):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)  # type: ignore[misc]

    def __init__(self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        """
        Args:
            root: where the graph's parameters, buffers and submodules come from: a module, or a dict from the dotted
                paths that nodes have as targets to the objects. Only what the graph uses is taken, by reference.
            graph: what to compute; a graph of torch.fx is copied.
            class_name: the name of the instance's class.

        Raises:
            RuntimeError: ``root`` is neither, or a dict that lacks a target.
            AttributeError: ``root`` is a module that lacks a target.
        """
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(graph, torch_side.foreign_graph):
            from fxlib.interop.convert import from_torch_graph

            graph = from_torch_graph(graph)
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                for name, _ in itertools.chain(root.named_children(), root.named_buffers(), root.named_parameters()):
                    _copy_attr(root, self, name)
            _copy_attrs(root, self, _attribute_targets(graph))
        elif isinstance(root, dict):
            targets = _attribute_targets(graph)
            for target, node in targets.items():
                if target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {target} but that target was not provided in ``root``!"
                    )
            # Parents first, or a child would be lost when its parent replaces the module made for it.
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")

        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}  # type: ignore[var-annotated]
        self._replace_hooks = []  # type: ignore[var-annotated]
        self._create_node_hooks = []  # type: ignore[var-annotated]
        self._erase_node_hooks = []  # type: ignore[var-annotated]
        self._deepcopy_hooks = []  # type: ignore[var-annotated]
        self.shape_env = None

    # torch.jit.script would try to compile these.
    __jit_unused_properties__ = ["graph", "_boxed_call"]

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """What the module computes. Assigning regenerates the code; after an edit call ``recompile``."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        assert isinstance(g, Graph), f"Expected a Graph instance, but got {type(g)}"
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Call recompile() first.")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate ``code`` and ``forward`` from ``graph`` as it is now.

        Returns:
            The generated source, its globals and its line map. It is compiled when ``forward`` is first used, unless
            it might not compile: then at once, so that the error comes here.

        Raises:
            SyntaxError: the graph has arguments or a code generator whose text is not Python.
        """
        graph = self._graph
        if isinstance(graph._codegen, _PyTreeCodeGen):
            self._in_spec = graph._codegen.pytree_info.in_spec
            self._out_spec = graph._codegen.pytree_info.out_spec
        python_code = graph.python_code(root_module="self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls = type(self)
        co_fields = graph._co_fields
        if python_code._deferrable:
            cls.forward = _DeferredForward(self._code, python_code.globals, co_fields)  # type: ignore[assignment]
        else:
            cls.forward = _forward_from_src(self._code, python_code.globals, co_fields)  # type: ignore[method-assign]
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))  # type: ignore[attr-defined]
            cls.__call__ = _call_wrapped  # type: ignore[method-assign]
        return python_code

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        """``recompile`` every graph module below; gives their paths and codes."""
        return [
            (name, module.recompile())
            for name, module in self.named_modules()
            if name and isinstance(module, GraphModule)
        ]

    # --- submodules ---------------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Install a module at a dotted path, with empty modules in between where there are none.

        Returns:
            False if something on the path is not a module.
        """
        *prefix, field = target.split(".")
        owner: nn.Module = self
        for item in prefix:
            child = getattr(owner, item, None)
            if child is None:
                child = nn.Module()
                setattr(owner, item, child)
            if not isinstance(child, nn.Module):
                return False
            owner = child
        owner.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a dotted path; nodes that call it are left as they are.

        Returns:
            False if there is no module at that path.
        """
        *prefix, field = target.split(".")
        owner: Any = self
        for item in prefix:
            owner = getattr(owner, item, None)
            if not isinstance(owner, nn.Module):
                return False
        if not isinstance(getattr(owner, field, None), nn.Module):
            return False
        delattr(owner, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete every module that no node calls or reads from, directly or through a module around it."""
        used: set[str] = set()
        called: set[str] = set()
        for target, node in _attribute_targets(self.graph).items():
            atoms = target.split(".")
            used.update(".".join(atoms[:i]) for i in range(1, len(atoms) + 1))
            if node._op == "call_module" and target not in called:
                called.add(target)
                try:
                    module = self.get_submodule(target)
                except AttributeError:
                    continue
                used.update(f"{target}.{name}" for name, _ in module.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # --- copies -------------------------------------------------------------------------------------------------------

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> "GraphModule":
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        body = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(copied, body, body.__dict__["_graph"])
        for name in (
            "_state_dict_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
            "_replace_hooks",
            "_create_node_hooks",
            "_erase_node_hooks",
            "_deepcopy_hooks",
            "shape_env",
        ):
            if name in self.__dict__:
                setattr(copied, name, copy.deepcopy(self.__dict__[name], memo))
        copied.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        for hook in copied._deepcopy_hooks:
            hook(copied)
        return copied

    def __copy__(self) -> "GraphModule":
        copied = GraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def _replicate_for_data_parallel(self) -> "GraphModule":
        replica = self.__copy__()
        replica._is_replica = True  # type: ignore[assignment]
        return replica

    def __reduce__(self) -> tuple[Any, ...]:
        body = self.__dict__.copy()
        python_code = self.recompile()
        imports = _format_import_block(python_code.globals, sys_importer)
        del body["_graph"]
        return reduce_graph_module, (body, imports)

    def __reduce_package__(self, exporter: PackageExporter) -> tuple[Any, ...]:
        # As torch itself, this library stays outside of the archive, unless a pattern before says otherwise.
        exporter.extern(["fxlib", "fxlib.**"], allow_empty=True)
        body = self.__dict__.copy()
        body["_graphmodule_cls_name"] = self.__class__.__name__
        del body["_graph"]
        name = f"fx-generated._{exporter.get_unique_id()}"
        python_code = self.recompile()
        imports = _format_import_block(python_code.globals, exporter.importer)
        exporter.save_source_string(name, imports + self.code)
        return reduce_package_graph_module, (body, name)

    # --- text ---------------------------------------------------------------------------------------------------------

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of the graph modules in it, with shapes and where each operation came from.

        Args:
            print_output: print it too.
            include_stride, include_device: say more about each value.
            colored: with terminal colours.
            fast_sympy_print: write symbolic sizes without simplifying them first.
            expanded_def: one parameter per line.
            additional_meta: keys of ``node.meta`` to show.
        """
        options = contextlib.ExitStack()
        if fast_sympy_print:
            from torch.utils._sympy.printers import PythonPrinter

            options.enter_context(_override_sym_repr(lambda value: PythonPrinter().doprint(value.node.expr)))
        with options:
            return _print_readable(
                self,
                self._get_name(),
                print_output,
                include_stride,
                include_device,
                colored,
                expanded_def,
                additional_meta,
            )

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a Python package, which finds its weights wherever it is moved.

        Args:
            folder: where; made if it does not exist.
            module_name: the name of the class in it.
        """
        write_folder(self, Path(folder), module_name)

    # --- hooks --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[[Node, str, Node], object]) -> Iterator[None]:
        """Call ``f(old=, new=, user=)`` whenever a node's input is replaced or a used node renamed."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[[Node, str, Node], object]) -> None:
        _require_callable("replace_node_hook", f)
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[[Node, str, Node], object]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        _require_callable("create_node_hook", f)
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        _require_callable("erase_node_hook", f)
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: "Callable[[GraphModule], object]") -> None:
        _require_callable("deepcopy_hook", f)
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: "Callable[[GraphModule], object]") -> None:
        self._deepcopy_hooks.remove(f)


def _require_callable(name: str, f: Any) -> None:
    assert callable(f), f"{name} must be a callable."


def _attribute_targets(graph: Graph) -> dict[str, Node]:
    """The dotted paths that a graph calls or reads, each with the first node that does."""
    targets: dict[str, Node] = {}
    for node in graph.nodes:
        op = node._op
        if op == "call_module" or op == "get_attr":
            target = node._target
            assert isinstance(target, str), f"Expected target to be str, got {type(target)}"
            if target not in targets:
                targets[target] = node
    return targets


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
    graph = module.graph
    assert graph is not None and isinstance(graph, Graph), "print_readable must be used on a module with a graph"
    code = graph.python_code(
        root_module="self",
        verbose=True,
        include_stride=include_stride,
        include_device=include_device,
        colored=colored,
        expanded_def=expanded_def,
        additional_meta=additional_meta,
    ).src.strip()
    children = [
        _print_readable(child, name, False, include_stride, include_device, colored, expanded_def, additional_meta)
        for name, child in module.named_children()
        if hasattr(child, "graph")
    ]
    output = "\n".join([f"class {module_name}(torch.nn.Module):", *map(indented, [code + "\n", *children])])
    if print_output:
        print(output)
    return output
