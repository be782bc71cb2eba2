"""GraphModule: a graph made into an ``nn.Module``, with the parameters it reads and a ``forward`` generated from it."""

import contextlib
import copy
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn
from torch.package import PackageExporter, sys_importer

from fxlib.codegen.calls import wrap_calls
from fxlib.codegen.compile import forward_of
from fxlib.codegen.folder import write_folder
from fxlib.codegen.function import PythonCode, _BoxedCodeGen, _override_sym_repr, _PyTreeCodeGen
from fxlib.codegen.hooks import HOOKS, hook_methods
from fxlib.codegen.pickling import packaged, pickled, reduce_graph_module, reduce_package_graph_module
from fxlib.codegen.readable import _print_readable
from fxlib.codegen.roots import _CodeOnlyModule, attribute_targets, take
from fxlib.interop.graphs import from_torch_graph
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.paths import _del_attr, attribute_of_modules, follow, reserve

__all__ = ["GraphModule", "own_name"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_KEPT_IN_COPIES = (
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "shape_env",
    *HOOKS,
)


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
        # Copies subclass the user's class, not the generated class of the copied instance.
        base = vars(cls).get("_class_of_instances", cls)
        return super().__new__(type("GraphModuleImpl", (base,), {"_class_of_instances": base}))  # type: ignore[misc]

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
            TypeError: a target is, or is in, an attribute that every graph module has, such as ``graph``.
        """
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(graph, foreign_graph):
            graph = from_torch_graph(graph)
        targets = attribute_targets(graph)
        if name := own_name(targets):
            raise TypeError(
                f"the graph reads {name!r} of the model, which is the name of an attribute of every GraphModule; "
                "rename it in the model"
            )
        take(root, self, targets)
        self.graph = graph
        # Pickling stores the tracer's class by name.
        tracer_cls = graph._tracer_cls
        self._tracer_cls = None if "<locals>" in getattr(tracer_cls, "__qualname__", "") else tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self.shape_env: Any = None
        for hooks in HOOKS:
            setattr(self, hooks, [])

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
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            _, self._in_spec, self._out_spec = codegen.pytree_info
        written = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = written.src, written._lineno_map, written._prologue_start
        cls = type(self)
        cls.forward = forward_of(written, self._graph._co_fields)  # type: ignore[method-assign]
        wrap_calls(cls)
        return written

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        """``recompile`` every graph module below; gives their paths and codes."""
        below = {name: module for name, module in self.named_modules() if name and isinstance(module, GraphModule)}
        return [(name, module.recompile()) for name, module in below.items()]

    # --- submodules ---------------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Install a module at a dotted path, with empty modules in between where there are none.

        Returns:
            False if something on the path is not a module.
        """
        prefix, _, name = target.rpartition(".")
        if not all(isinstance(found, nn.Module | None) for found in follow(self, prefix).objects):
            return False
        reserve(self, prefix).add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a dotted path; nodes that call it are left as they are.

        Returns:
            False if there is no module at that path.
        """
        if not isinstance(attribute_of_modules(self, target), nn.Module):
            return False
        _del_attr(self, target)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete every module that no node calls or reads from, directly or through an enclosing module."""
        used: set[str] = set()
        for path, node in attribute_targets(self.graph).items():
            # The path itself, and those of the enclosing modules.
            used.update(itertools.accumulate(path.split("."), "{}.{}".format))
            module = attribute_of_modules(self, path) if node._op == "call_module" else None
            if isinstance(module, nn.Module):
                used.update(dict(module.named_modules(prefix=path)))
        for path in dict(self.named_modules()).keys() - used:
            self.delete_submodule(path)

    # --- copies -------------------------------------------------------------------------------------------------------

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, object]) -> "GraphModule":
        made = memo[id(self)] = type(self).__new__(type(self))
        state = copy.deepcopy(vars(self), memo)
        self._deepcopy_init()(made, _CodeOnlyModule(state), state["_graph"])
        made.meta = state.get("meta", {})
        kept = {name: state[name] for name in _KEPT_IN_COPIES if name in state}
        kept.update(made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}))
        for name, value in kept.items():
            setattr(made, name, value)
        for hook in made._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> "GraphModule":
        copied = GraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def _replicate_for_data_parallel(self) -> "GraphModule":
        replica = self.__copy__()
        replica._is_replica = True  # type: ignore[assignment]
        return replica

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_graph_module, pickled(self, sys_importer)

    def __reduce_package__(self, exporter: PackageExporter) -> tuple[Any, ...]:
        return reduce_package_graph_module, packaged(self, exporter)

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
            include_stride, include_device: also show these of each value.
            colored: with terminal colours.
            fast_sympy_print: write symbolic sizes without simplifying them first.
            expanded_def: one parameter per line.
            additional_meta: keys of ``node.meta`` to show.
        """
        with _sizes_written_fast() if fast_sympy_print else contextlib.nullcontext():
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
        """Write the module as a Python package that can be moved together with its weights.

        Args:
            folder: the target folder; created if it does not exist.
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

    _register_replace_node_hook, _unregister_replace_node_hook = hook_methods("replace_node_hook", "_replace_hooks")
    _register_create_node_hook, _unregister_create_node_hook = hook_methods("create_node_hook", "_create_node_hooks")
    _register_erase_node_hook, _unregister_erase_node_hook = hook_methods("erase_node_hook", "_erase_node_hooks")
    _register_deepcopy_hook, _unregister_deepcopy_hook = hook_methods("deepcopy_hook", "_deepcopy_hooks")


_OWN_NAMES = {
    *dir(GraphModule), *HOOKS, "_graph", "_code", "_lineno_map", "_prologue_start", "_tracer_cls", "_tracer_extras",
    "meta", "shape_env",
} - {*dir(nn.Module)}  # fmt: skip


def own_name(targets: Iterable[str]) -> str | None:
    """The first name with which one of these paths begins that a graph module needs for an attribute of its own."""
    return next((name for path in targets if (name := path.partition(".")[0]) in _OWN_NAMES), None)


def _sizes_written_fast() -> contextlib.AbstractContextManager[None]:
    from torch.utils._sympy.printers import PythonPrinter

    return _override_sym_repr(lambda value: PythonPrinter().doprint(value.node.expr))
