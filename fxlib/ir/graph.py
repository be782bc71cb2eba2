"""Graph: the nodes of one function, in order, and the ways to build, edit, check and print them.

The nodes form a ring of links around a root node, so inserting and erasing cost the same at any size, also while
iterating. Turning a graph into Python is left to ``codegen``, running it to ``graph_module`` and ``interpreter``.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fxlib.ir.arguments import _ATOMS, Argument, Target
from fxlib.ir.collections import immutable_dict

# Names that programs import from here although other files define them.
from fxlib.ir.format import (
    _is_magic,
    _snake_case,
    _table,
)
from fxlib.ir.lint import check
from fxlib.ir.names import _custom_builtins, _CustomBuiltin, _illegal_names, _Namespace, _register_custom_builtin  # noqa: F401
from fxlib.ir.node import Node, _map_nodes, _new_node, map_arg
from fxlib.ir.order import GAP, label, link_before, unlink
from fxlib.ir.paths import _has_module_attribute
from fxlib.ir.state import flattened, restore
from fxlib.ir.views import _FindNodesLookupTable, _InsertPoint, _node_list

if TYPE_CHECKING:
    from fxlib.capture.tracer import Tracer
    from fxlib.codegen.function import CodeGen, PythonCode, TransformCodeFunc
    from fxlib.codegen.graph_module import GraphModule

__all__ = ["Graph"]

_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output"])
_order_of = attrgetter("_sort_key")
_NO_KWARGS = immutable_dict()


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
        tracer_cls, tracer_extras: which tracer made it, and what that tracer wants kept; both survive copies.
    """

    # Makes the source generator of a new graph; `fxlib.codegen` sets it, so that this file need not know it.
    _new_codegen: ClassVar[type[CodeGen]]

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root: Node = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._append = partial(link_before, self._root)
        self._insert: Callable[..., None] = self._append
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen: CodeGen = self._new_codegen()
        # While code is generated: the function that gives nodes their names there.
        self._naming: Callable[[Node], str] | None = None
        self._co_fields: dict[str, Any] = {}
        self._find_nodes_lookup_table: _FindNodesLookupTable | None = None

    @property
    def owning_module(self) -> GraphModule | None:
        """The GraphModule that this graph is of, if any."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """Every node in order; ``reversed(graph.nodes)`` goes backwards. Nodes may be edited meanwhile."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The output node.

        Raises:
            StopIteration: there is none.
        """
        return next(iter(self.find_nodes(op="output")))

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """The nodes of one op and target, without looking at the others.

        Args:
            op: one of the six.
            target: required for ``call_function``; for the others None means any.
            sort: in graph order, else in any order.

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
            except TypeError:  # not all of them are labelled
                found.sort(key=label)
        return found

    # --- building -----------------------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Make a node and insert it at the current insert point, by default the end.

        Args:
            op: one of the six operations.
            target: what is called or read, see ``Node``.
            args, kwargs: its arguments.
            name: the name wished for; another is found if it is taken. By default made from the target.
            type_expr: the type of the value, written as an annotation in generated code.

        Raises:
            AssertionError: ``op``, ``args`` or ``kwargs`` is not what it must be.
            ValueError: the target is not of the type that ``op`` needs.
        """
        if args is None:
            args = ()
        elif not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs is None:
            kwargs = _NO_KWARGS
        elif not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        unique = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        return self._link(Node(self, unique, op, target, args, kwargs, type_expr))

    def _record(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        inputs: dict[Node, None],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """``create_node`` for a caller that vouches for everything: what tracers call.

        Args:
            op, target, name, type_expr: as for ``create_node``.
            args, kwargs: consisting of immutable collections, tuples, slices, nodes and immediates only.
            inputs: every node among them, in the order of first use; the new node keeps this dict.
        """
        unique = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        return self._link(_new_node(self, unique, op, target, args, kwargs, inputs, type_expr))

    def _link(self, node: Node) -> Node:
        """Insert a new node at the insert point."""
        if self._owning_module is not None:
            for hook in getattr(self._owning_module, "_create_node_hooks", ()):
                hook(node)
        if self._insert is self._append:
            root = self._root
            last = root._prev
            last._next = root._prev = node
            node._prev = last
            node._next = root
            # Labelled at once where that is one addition; see ``_order``.
            key = last._sort_key
            node._sort_key = None if key is None else key + GAP
        else:
            self._insert(node)
        if self._find_nodes_lookup_table is not None:
            self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            return _snake_case(target.__name__)
        assert isinstance(target, str), f"Expected target to be str, got {type(target)}"
        return _snake_case(target[2:-2] if _is_magic(target) else target)

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Insert an input of the function, named ``name`` (``*args`` and ``**kwargs`` included)."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Insert a read of the attribute at a dotted path of the module. Warns where the module has no such."""
        if self.owning_module is not None and not _has_module_attribute(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no "
                "underlying reference in the owning "
                "GraphModule! Call "
                "GraphModule.add_submodule to add the "
                "necessary submodule, "
                "GraphModule.add_parameter to add the "
                "necessary Parameter, or "
                "nn.Module.register_buffer to add the "
                "necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of the submodule at a dotted path.

        Raises:
            AttributeError: the graph is of a module that has no such submodule.
        """
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of the method ``method_name`` on ``args[0]`` with the other arguments."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a Python function, operator or class."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Insert the return of ``result``."""
        return self.create_node(op="output", target="output", args=(result,), type_expr=type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert a read of one size of a tensor; where ``meta`` has the tensor, the result's ``meta`` has the size."""
        return self._create_reading(torch.ops.aten.sym_size.int, tensor_node, dim)

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert a read of one stride of a tensor, like ``create_size_node``."""
        return self._create_reading(torch.ops.aten.sym_stride.int, tensor_node, dim)

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Insert a read of a tensor's storage offset, like ``create_size_node``."""
        return self._create_reading(torch.ops.aten.sym_storage_offset.default, tensor_node)

    def _create_reading(self, operator: Callable[..., Any], tensor_node: Node, *dim: int) -> Node:
        node = self.call_function(operator, (tensor_node, *dim))
        value, key = self._get_tensor_meta_val(tensor_node)
        if value is not None:
            read = {"sym_size": value.size, "sym_stride": value.stride}.get(operator._opname, value.storage_offset)  # type: ignore[attr-defined]
            node.meta[key] = read(*dim)  # type: ignore[misc]
        return node

    def materialize_symint(self, value: torch.SymInt | int) -> Node | int:
        """Insert what computes one symbolic size, see ``materialize_symints``."""
        result: Node | int = self.materialize_symints([value])[0]
        return result

    def materialize_symints(self, values: Sequence[torch.SymInt | int]) -> list[Node | int]:
        """Insert the nodes that compute symbolic sizes from the nodes of this graph that define their symbols.

        Example::

            with graph.inserting_before(graph.output_node()):
                rows, columns = graph.materialize_symints(tensor_node.meta["val"].shape)
                graph.call_function(torch.zeros, ((rows, columns),))

        Unlike ``create_size_node``, which asks the tensor when it runs, the values depend on the inputs alone. Equal
        parts of the expressions become one node, so pass what belongs together in one call.

        Returns:
            A node for each symbolic value, numbers as they were.

        Raises:
            TypeError: a value that is no integer. AssertionError: a symbol that no node of the graph defines.
        """
        from fxlib.ir.symbolic_sizes import materialize

        return materialize(self, values)

    def _resolve_unbacked_binding(
        self, producer: Node, keypath: tuple[object, ...], lower_symint: Callable[[torch.SymInt], Node | int]
    ) -> Node:
        from fxlib.ir.symbolic_sizes import resolve_binding

        return resolve_binding(self, producer, keypath, lower_symint)

    @staticmethod
    def _get_tensor_meta_val(tensor_node: Node) -> tuple[Any, str]:
        for key in ("val", "example_value"):
            if key in tensor_node.meta:
                return tensor_node.meta[key], key
        return None, "val"

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go before ``n``; before the first node if it is None. Use in a ``with`` statement to have the
        old place back at its end.

        Raises:
            AssertionError: ``n`` is of another graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph == self, "Node to insert before is not in graph."
        return _InsertPoint(self, partial(link_before, n))

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go right after ``n``; at the end of the graph if it is None. See ``inserting_before``.

        Raises:
            AssertionError: ``n`` is of another graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph == self, "Node to insert after is not in graph."
        return _InsertPoint(self, partial(_insert_after, n))

    # --- copying ------------------------------------------------------------------------------------------------------

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy a node of any graph into this one.

        Args:
            node: the node to copy; its ``meta`` is copied one level deep.
            arg_transform: gives the node of this graph that stands for a node among the arguments.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        assert isinstance(args, tuple), f"Expected args to be tuple, got {type(args)}"
        assert isinstance(kwargs, dict), f"Expected kwargs to be dict, got {type(kwargs)}"
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result._copy_origin(node)
        return result

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | tuple[Argument, Node] | None:
        """Append copies of all nodes of ``g`` but its output.

        Args:
            g: the graph to copy from.
            val_map: nodes of ``g`` that have a stand-in here already; filled with the copies.
            return_output_node: give the output node of ``g`` too.

        Returns:
            What ``g`` returns, in terms of this graph's nodes; None if it has no output.
        """
        lookup = val_map.__getitem__
        cls = type(self)
        plain = cls.node_copy is Graph.node_copy and cls.create_node is Graph.create_node and isinstance(g, Graph)
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lookup)
                return (result, node) if return_output_node else result
            copied = self._copy_simple(node, val_map) if plain else None
            val_map[node] = self.node_copy(node, lookup) if copied is None else copied
        return None

    def _copy_simple(self, node: Node, val_map: dict[Node, Node]) -> Node | None:
        """What ``node_copy`` makes of a node, without normalising its arguments again; None where that is needed, as
        the map gives something else than a node for one of them."""
        if type(node._args) is not tuple:
            return None
        args: list[Any] = []
        inputs: dict[Node, None] = {}
        atoms, nested = _ATOMS, False
        groups: Any = (node._args, node._kwargs.values()) if node._kwargs else (node._args,)
        for group in groups:
            for a in group:
                kind = type(a)
                if kind is Node:
                    a = val_map[a]
                    if type(a) is not Node:
                        return None
                    inputs[a] = None
                elif kind not in atoms:
                    a, nested = _map_nodes(a, val_map.__getitem__), True
                args.append(a)
        if nested:
            used = [val_map[one] for one in node._input_nodes]
            for one in used:
                if type(one) is not Node:
                    return None
            inputs = dict.fromkeys(used)
        kwargs = _NO_KWARGS
        if node._kwargs:
            count = len(node._args)
            kwargs = immutable_dict(zip(node._kwargs, args[count:], strict=True))
            del args[count:]
        name = self._graph_namespace.create_name(node._name, None)
        copied = self._link(_new_node(self, name, node._op, node._target, tuple(args), kwargs, inputs, node.type))
        copied._site = node._site
        copied._module_stack = node._module_stack
        if node._meta is not None:
            copied._meta = copy.copy(node._meta)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        copies: dict[Node, Node] = {} if memo is None else memo  # type: ignore[assignment]
        returned = copied.graph_copy(self, val_map=copies, return_output_node=True)
        copied._codegen = copy.deepcopy(self._codegen)
        if returned is not None:
            assert isinstance(returned, tuple), f"Expected output_vals to be tuple, got {type(returned)}"
            value, old_output = returned
            output = copied.output(value, type_expr=old_output.type)
            output._copy_origin(old_output)
        return copied

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
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph != self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        if self._owning_module is not None:
            for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
                hook(to_erase)
        if self._find_nodes_lookup_table is not None:
            self._find_nodes_lookup_table.remove(to_erase)
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
        impure_random = True
        if torch._guards.TracingContext.try_get():
            impure_random = torch._inductor.config.fallback_random  # type: ignore[attr-defined]
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node(node) if is_impure_node else node.is_impure(impure_random)):
                self.erase_node(node)
                changed = True
        return changed

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
            root_module: the name under which generated code reaches the module, mostly ``"self"``.
            verbose: write shapes from ``meta`` as annotations and where each operation came from as comments.
            include_stride, include_device: more of the same annotations.
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
        """Use another way to write the function's head, its inputs and its output."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """The function's arguments in the form that the placeholders take, e.g. flattened."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the output node gives in the form that the function returns, e.g. unflattened."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Register a function over the lines of the generated body.

        Args:
            make_transformer: gets the one registered so far (or None) and returns the new one, which should call it.

        Returns:
            A context manager that puts the old one back; if it is not entered, the new one stays.
        """
        previous = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(previous)

        @contextlib.contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = previous

        return restoring()

    # --- printing -----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "".join(["graph():", *(f"\n    {line}" for line in lines if line)])

    def print_tabular(self) -> None:
        """Print one row per node: opcode, name, target, args, kwargs."""
        rows = [(node.op, node.name, node.target, node.args, node.kwargs) for node in self.nodes]
        print(_table(("opcode", "name", "target", "args", "kwargs"), rows))


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
