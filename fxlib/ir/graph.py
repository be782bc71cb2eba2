"""Graph: the nodes of one function, in order, and the ways to build, edit, check and print them.

The nodes form a ring of links around a root node, so inserting and erasing cost the same at any size, also while
iterating. Turning a graph into Python is left to ``codegen``, running it to ``graph_module`` and ``interpreter``.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fxlib.ir import copying, makers
from fxlib.ir.arguments import _ATOMS, Target
from fxlib.ir.format import _table
from fxlib.ir.lint import check
from fxlib.ir.names import _Namespace
from fxlib.ir.node import Node, _map_nodes
from fxlib.ir.order import label, link_before, unlink
from fxlib.ir.state import flattened, restore
from fxlib.ir.views import _FindNodesLookupTable, _InsertPoint, _node_list

if TYPE_CHECKING:
    from fxlib.capture.tracer import Tracer
    from fxlib.codegen.function import CodeGen, PythonCode, TransformCodeFunc
    from fxlib.codegen.graph_module import GraphModule

__all__ = ["Graph"]

_order_of = attrgetter("_sort_key")


def _insert_after(anchor: Node, node: Node) -> None:
    link_before(anchor._next, node)


class Graph:
    """The operations of one function in order, as nodes.

    Example::

        graph = fxlib.Graph()
        x = graph.placeholder("x")
        y = graph.call_function(torch.relu, (x,))
        graph.output(y)
        module = fxlib.GraphModule(torch.nn.Module(), graph)

    Args:
        owning_module: the GraphModule it belongs to; set by that module.
        tracer_cls, tracer_extras: the tracer class and its extra data; both survive copies.
    """

    # Makes the source generator of a new graph. `fxlib.codegen` sets it, so that this file does not depend on it.
    _new_codegen: ClassVar[type[CodeGen]]

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        # Attributes of code objects that give the source of the traced function.
        self._co_fields: dict[str, Any] = {}
        self._codegen: CodeGen = self._new_codegen()
        # While code is generated: the function that names nodes there.
        self._naming: Callable[[Node], str] | None = None
        self._start_empty()

    def _start_empty(self) -> None:
        self._graph_namespace = _Namespace()
        self._used_names: dict[str, int] = {}
        # The root of the ring; nodes are appended before it.
        self._root: Node = Node(self, "", "root", "", (), {})
        self._len = 0
        self._insert: Callable[..., None]
        self._insert = self._append = partial(link_before, self._root)
        # Created on the first look-up of nodes of one kind.
        self._find_nodes_lookup_table: _FindNodesLookupTable | None = None

    @property
    def owning_module(self) -> GraphModule | None:
        """The GraphModule that owns this graph, if any."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """Every node in order; ``reversed(graph.nodes)`` goes backwards. Nodes may be edited during iteration."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The output node.

        Raises:
            StopIteration: there is none.
        """
        return next(iter(self.find_nodes(op="output")))

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one op and target, without looking at the others.

        Args:
            op: one of the six.
            target: required for ``call_function``; for the others None means any.
            sort: in graph order; otherwise in any order.

        Raises:
            AssertionError: ``call_function`` without a target.
        """
        table = self._find_nodes_lookup_table
        if table is None:
            table = self._find_nodes_lookup_table = _FindNodesLookupTable()
            for node in self.nodes:
                table.insert(node)
        found = table.find_nodes(op=op, target=target)
        if sort:
            try:
                found.sort(key=_order_of)
            except TypeError:  # not all nodes have a label
                found.sort(key=label)
        return found

    # --- building -----------------------------------------------------------------------------------------------------

    create_node = makers.create_node
    _record, _link, _target_to_str = makers.record, makers.link, makers.target_to_str

    placeholder, output = makers.placeholder, makers.output
    get_attr, call_module = makers.get_attr, makers.call_module
    call_function, call_method = makers.call_function, makers.call_method

    create_size_node, create_stride_node = makers.create_size_node, makers.create_stride_node
    create_storage_offset_node = makers.create_storage_offset_node
    materialize_symint, materialize_symints = makers.materialize_symint, makers.materialize_symints
    _resolve_unbacked_binding = makers.resolve_unbacked_binding
    _get_tensor_meta_val = staticmethod(makers.tensor_in_meta)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before ``n``, or before the first node if it is None. A ``with`` statement restores the old
        place at its end.

        Raises:
            AssertionError: ``n`` is of another graph.
        """
        return self._insert_point(n, "before", link_before, _insert_after)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes right after ``n``, or at the end of the graph if it is None. See ``inserting_before``.

        Raises:
            AssertionError: ``n`` is of another graph.
        """
        return self._insert_point(n, "after", _insert_after, link_before)

    def _insert_point(
        self,
        anchor: Node | None,
        side: str,
        link: Callable[[Node, Node], None],
        # The ring closes at the root: its successor is the first node, its predecessor the last one.
        link_at_root: Callable[[Node, Node], None],
    ) -> _InsertPoint:
        if anchor is None:
            return _InsertPoint(self, partial(link_at_root, self._root))
        assert anchor.graph == self, f"Node to insert {side} is not in graph."
        return _InsertPoint(self, partial(link, anchor))

    # --- copying ------------------------------------------------------------------------------------------------------

    node_copy, graph_copy = copying.node_copy, copying.graph_copy

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        return copying.fill(Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras), self, memo)

    def __getstate__(self) -> dict[str, Any]:
        return flattened(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        Graph.__init__(self)
        restore(self, state)

    # --- editing ------------------------------------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take a node without users out of the graph.

        Raises:
            RuntimeError: it has users, or is of another graph.
        """
        if to_erase.users or to_erase._erased or to_erase.graph is not self:
            _refuse_to_erase(to_erase, self)
            return
        owner, table = self._owning_module, self._find_nodes_lookup_table
        if owner is not None:
            for hook in getattr(owner, "_erase_node_hooks", ()):
                hook(to_erase)
        if table is not None:
            table.remove(to_erase)
        unlink(to_erase)
        to_erase._erased = True
        self._len -= 1
        inputs = to_erase._input_nodes
        if inputs:
            for used in inputs:
                used.users.pop(to_erase, None)
            inputs.clear()
            to_erase._args = _without_nodes(to_erase._args)
            if to_erase._kwargs:
                to_erase._kwargs = _map_nodes(to_erase._kwargs, _nothing)

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase every node whose value nothing uses, last ones first; inputs and impure operations stay.

        Args:
            is_impure_node: says which nodes must stay; by default ``Node.is_impure``.

        Returns:
            Whether anything was erased.

        Raises:
            RuntimeError: the graph is not well-formed (``lint``).
        """
        self.lint()
        stays = is_impure_node or partial(Node.is_impure, impure_random=_random_is_impure())
        length = self._len
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
        return self._len < length

    # --- checking -----------------------------------------------------------------------------------------------------

    def lint(self) -> None:
        """Check that the graph is well-formed: known ops, unique names, nodes of this graph only, every value defined
        before its use, targets of the right type and, in a GraphModule, existing.

        Raises:
            RuntimeError, ValueError: it is not; the message names the node.
        """
        check(self)

    # --- code ---------------------------------------------------------------------------------------------------------

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as the source of a function ``forward``.

        Args:
            root_module: the name of the module in generated code, mostly ``"self"``.
            verbose: write shapes from ``meta`` as annotations and where each operation came from as comments.
            include_stride, include_device: also annotate these.
            colored: with terminal colours.
            expanded_def: one parameter per line.
            record_func: wrap each operation for the profiler.
            additional_meta: keys of ``meta`` to write as comments.

        Returns:
            Source, the globals it needs, and which node each line came from.
        """
        return self._python_code(
            root_module,
            _Namespace(),
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            record_func=record_func,
            additional_meta=additional_meta,
        )

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Replace the code generator, which writes the function's head, inputs and output."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """The function's arguments in the form that the placeholders take, e.g. flattened."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The output node's value in the form that the function returns, e.g. unflattened."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[Any]:
        """Register a function that transforms the lines of the generated body.

        Args:
            make_transformer: gets the one registered so far (or None) and returns the new one, which should call it.

        Returns:
            A context manager that restores the old one at its end; without ``with``, the new one stays.
        """
        codegen, restoring = self._codegen, contextlib.ExitStack()
        restoring.callback(setattr, codegen, "_body_transformer", codegen._body_transformer)
        codegen._body_transformer = make_transformer(codegen._body_transformer)
        return restoring

    # --- printing -----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "".join(["graph():", *(f"\n    {line}" for line in lines if line)])

    def print_tabular(self) -> None:
        """Print one row per node: opcode, name, target, args, kwargs."""
        cells = attrgetter(*_COLUMNS.values())
        print(_table(tuple(_COLUMNS), [cells(node) for node in self.nodes]))


# Heading and attribute of each column of the table of all nodes.
_COLUMNS = {"opcode": "op", "name": "name", "target": "target", "args": "args", "kwargs": "kwargs"}


def _refuse_to_erase(node: Node, graph: Graph) -> None:
    if node.users:
        count, users = len(node.users), node.users
        raise RuntimeError(f"Tried to erase Node {node} but it still had {count} users in the graph: {users}!")
    if node.graph is not graph:
        raise RuntimeError(f"Attempting to remove {node} from wrong graph!")
    warnings.warn(f"erase_node({node}) on an already erased node", stacklevel=3)


def _random_is_impure() -> bool:
    """Whether dead random calls stay: inside torch.compile, its backend's setting decides."""
    if torch._guards.TracingContext.try_get() is None:
        return True
    return torch._inductor.config.fallback_random  # type: ignore[attr-defined]


def _nothing(node: Node) -> None:
    return None


def _without_nodes(args: Any) -> Any:
    """The arguments with None for every node."""
    if type(args) is not tuple:
        return _map_nodes(args, _nothing)
    left = []
    for a in args:
        kind = type(a)
        if kind is Node:
            a = None
        elif kind not in _ATOMS:
            return _map_nodes(args, _nothing)
        left.append(a)
    return tuple(left)
