"""Node: one operation of a graph, its arguments, and who uses its value.

Arguments are kept as immutable collections, and every change of them updates the use-def links both ways. Where a
node stands is left to ``position``, how it is written to ``format``, and where it came from to ``origin``.
"""

import itertools
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fxlib.ir import position
from fxlib.ir.arguments import _ATOMS, COLLECTIONS, Argument, ArgumentT, Target, _legal_ops, rebuilt, wrong_target
from fxlib.ir.collections import immutable_dict, immutable_list
from fxlib.ir.effects import is_impure
from fxlib.ir.format import _pretty_print_target, format_node
from fxlib.ir.normalize import normalized_arguments
from fxlib.ir.order import unlink
from fxlib.ir.origin import Recorded

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__ = ["Node", "arguments_of", "map_arg"]


def map_arg(a: ArgumentT, fn: Callable[["Node"], Argument]) -> ArgumentT:
    """Apply ``fn`` to every Node in ``a``; everything else stays.

    Raises:
        AssertionError: ``fn`` is not callable.
    """
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return _map_nodes(a, fn)


def arguments_of(node: "Node", value_of: Callable[["Node"], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with each node replaced by its value."""
    return _map_nodes(node._args, value_of), _map_nodes(node._kwargs, value_of)


def _map_nodes(a: Any, fn: Callable[["Node"], Any]) -> Any:
    kind = type(a)
    if kind is Node:
        return fn(a)
    if kind in _ATOMS:
        return a
    if kind is tuple or kind is immutable_list:
        # Nearly all arguments, and most of them are flat.
        return kind(
            [fn(part) if (t := type(part)) is Node else part if t in _ATOMS else _map_nodes(part, fn) for part in a]
        )
    if isinstance(a, COLLECTIONS):
        return rebuilt(a, _map_nodes, fn)
    return fn(a) if isinstance(a, _node_types) else a


def _replace_hooks(graph: "Graph") -> Iterable[Callable[..., object]]:
    """Callbacks of a graph module for replaced inputs and renamed nodes."""
    return getattr(graph._owning_module, "_replace_hooks", None) or ()


def _announce(graph: "Graph", **replacement: Any) -> None:
    for hook in _replace_hooks(graph):
        hook(**replacement)


class Node(Recorded):
    """One operation: what it calls (``op``, ``target``), with what (``args``, ``kwargs``), and who uses the value.

    * ``placeholder``: an input of the function; ``target`` is its name, ``args`` a default value if any.
    * ``get_attr``: a parameter, buffer or other attribute; ``target`` is its dotted path from the module.
    * ``call_function``: ``target`` is the function called with ``args`` and ``kwargs``.
    * ``call_module``: ``target`` is the dotted path of the submodule called.
    * ``call_method``: ``target`` is the name of the method, ``args[0]`` the object.
    * ``output``: ``args[0]`` is what is returned.

    ``meta`` is for facts about the node: passes put shapes there, ``copy`` operations take it along. Nodes compare by
    their position: ``a < b`` says that ``a`` comes before ``b`` in the graph.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_args", "_erased", "_input_nodes", "_kwargs", "_name", "_next", "_op", "_prev",
        "_repr_fn", "_sort_key", "_target", "graph", "type", "users",
    )  # fmt: skip

    graph: "Graph"
    users: dict["Node", None]
    _args: tuple[Argument, ...]
    _kwargs: dict[str, Argument]
    _input_nodes: dict["Node", None]
    _next: "Node"
    _prev: "Node"
    _repr_fn: Callable[["Node"], str] | None
    # Created on first use, see ``order``.
    _sort_key: int | None
    _target: Any

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: "Target",
        args: tuple["Argument", ...],
        kwargs: dict[str, "Argument"],
        return_type: object | None = None,
    ) -> None:
        """
        Raises:
            AssertionError: ``op`` is none of the six.
            ValueError: ``target`` is not callable although ``op`` is ``call_function``, or not a string otherwise.
        """
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] {wrong_target(op, target)}")
        self.graph = graph
        self._name = name
        self._op = op
        self._target = target
        self.type = return_type
        self.users = {}
        self._meta = None
        self._module_stack = None
        self._erased = False
        self._repr_fn = None
        self._site = None
        self._sort_key = 0
        self._prev = self._next = self
        self._input_nodes = {}
        self._set_arguments(args, kwargs)

    # --- what the node is ---------------------------------------------------------------------------------------------

    def _set_indexed(self, slot: str, value: Target) -> None:
        table = self.graph._find_nodes_lookup_table
        if table is None or self not in table:
            setattr(self, slot, value)
            return
        table.remove(self)
        setattr(self, slot, value)
        table.insert(self)

    def _set_op(self, value: str) -> None:
        self._set_indexed("_op", value)

    def _set_target(self, value: Target) -> None:
        self._set_indexed("_target", value)

    def _set_name(self, value: str) -> None:
        for hook in _replace_hooks(self.graph):
            for user in self.users:
                hook(old=self, new=value, user=user)
        self._name = value

    def _rename(self, candidate: str) -> None:
        """Give the node the free name closest to ``candidate``."""
        if candidate != self._name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    # --- where it stands ----------------------------------------------------------------------------------------------

    @property
    def next(self) -> "Node":
        """The node after this one; the graph's root after the last."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node before this one; the graph's root before the first."""
        return self._prev

    prepend = _prepend = position.prepend
    append = position.append
    _remove_from_list = unlink
    __lt__, __gt__ = position.less, position.greater
    __le__, __ge__ = position.less_or_equal, position.greater_or_equal

    # --- arguments and uses -------------------------------------------------------------------------------------------

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        """Take normalised copies of the arguments and register as a user of every node in them.

        The node must not be registered with any node before (``_drop_inputs``).
        """
        inputs = self._input_nodes
        if type(args) is tuple:
            for a in args:
                kind = type(a)
                if kind is Node:
                    inputs[a] = None
                    a.users[self] = None
                elif kind not in _ATOMS:
                    args = _register(args, self)
                    break
        else:
            args = _register(args, self)
        self._args = args
        if kwargs or type(kwargs) is not immutable_dict:
            kwargs = _register(kwargs, self) if kwargs or not isinstance(kwargs, dict) else immutable_dict()
        self._kwargs = kwargs

    def _drop_inputs(self) -> None:
        inputs = self._input_nodes
        for node in inputs:
            node.users.pop(self, None)
        inputs.clear()

    def _update_args_kwargs(self, new_args: tuple["Argument", ...], new_kwargs: dict[str, "Argument"]) -> None:
        """Replace both kinds of arguments at once."""
        self._drop_inputs()
        self._set_arguments(new_args, new_kwargs)

    def _set_args(self, value: tuple["Argument", ...]) -> None:
        self._drop_inputs()
        self._set_arguments(value, self._kwargs)

    def _set_kwargs(self, value: dict[str, "Argument"]) -> None:
        self._drop_inputs()
        self._set_arguments(self._args, value)

    # The getters are in C: these are read far more often than anything else here.
    if TYPE_CHECKING:
        op: str
        target: Any
        name: str
        # Typed ``Any``: with ``Argument``, every use would have to narrow a union of twenty types.
        args: tuple[Any, ...]
        kwargs: dict[str, Any]
    else:
        op = property(attrgetter("_op"), _set_op, doc="One of the six operations.")
        target = property(attrgetter("_target"), _set_target, doc="What is called or read; its type depends on ``op``.")
        name = property(attrgetter("_name"), _set_name, doc="Unique in the graph; the variable in generated code.")
        args = property(attrgetter("_args"), _set_args, doc="Positional arguments. Assign a new tuple to change them.")
        kwargs = property(attrgetter("_kwargs"), _set_kwargs, doc="Keyword arguments. Assign a dict to change them.")

    @property
    def all_input_nodes(self) -> list["Node"]:
        """Every node among the arguments, once each, in the order of first use."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: "Argument") -> None:
        """Make ``arg`` the positional argument ``idx``.

        Raises:
            IndexError: there is no such argument.
        """
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: "Argument") -> None:
        """Insert ``arg`` before the positional argument ``idx``.

        Raises:
            AssertionError: ``idx`` is not between 0 and the number of arguments.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = self._args[:idx] + (arg,) + self._args[idx:]

    def update_kwarg(self, key: str, arg: "Argument") -> None:
        """Make ``arg`` the keyword argument ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(
        self,
        replace_with: "Node",
        delete_user_cb: Callable[["Node"], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list["Node"]:
        """Make every user of this node use ``replace_with`` instead.

        Args:
            replace_with: the node to use.
            delete_user_cb: called for each user; if it returns False, the user stays as it is.
            propagate_meta: copy this node's ``meta`` to ``replace_with``, which must have none.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            self._give_meta(replace_with)
        changed = list(self.users)
        if delete_user_cb is not None:
            changed = list(filter(delete_user_cb, changed))
        exchange = Node.replace_input_with if _replace_hooks(self.graph) else Node._replace_input_with
        for user in changed:
            exchange(user, self, replace_with)
        return changed

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Use ``new_input`` wherever the arguments have ``old_input``."""
        _announce(self.graph, old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    def _replace_input_with(self, old: "Node", new: "Node") -> None:
        args = self._args
        if type(args) is tuple and not self._kwargs:
            inputs = self._input_nodes
            for used in inputs:
                used.users.pop(self, None)
            inputs.clear()
            replaced = []
            for a in args:
                if type(a) is Node:
                    if a is old:
                        a = new
                    inputs[a] = None
                    a.users[self] = None
                elif type(a) not in _ATOMS:
                    break
                replaced.append(a)
            else:
                self._args = tuple(replaced)
                return

        def swap(node: "Node") -> "Node":
            return new if node is old else node

        self._update_args_kwargs(_map_nodes(args, swap), _map_nodes(self._kwargs, swap))

    # --- questions ----------------------------------------------------------------------------------------------------

    is_impure = is_impure
    normalized_arguments = normalized_arguments
    format_node = format_node
    _pretty_print_target = staticmethod(_pretty_print_target)

    def __reduce__(self) -> tuple[Any, ...]:
        for number, node in enumerate(self.graph.nodes):
            if node is self:
                return _nth_node, (self.graph, number)
        raise TypeError(f"cannot pickle node {self} without its graph: it was erased")

    def __repr__(self) -> str:
        if self._repr_fn is not None:
            return self._repr_fn(self)
        naming = self.graph._naming
        return self._name if naming is None else naming(self)


def _register(a: Any, user: Node) -> Any:
    """A normalised copy of an argument; every node in it gets ``user`` as a user."""
    kind = type(a)
    if kind in _ATOMS:
        return a
    if kind is not Node and isinstance(a, COLLECTIONS):
        return rebuilt(a, _register, user)
    if isinstance(a, Node):
        user._input_nodes[a] = None
        a.users[user] = None
    return a


_allocate = object.__new__

# Node classes whose instances count as nodes among arguments; interop adds torch.fx's, so that an Interpreter or a
# matcher accepts graphs of torch.fx.
_node_types: tuple[type[Any], ...] = (Node,)


def _new_node(
    graph: "Graph",
    name: str,
    op: str,
    target: "Target",
    args: tuple[Argument, ...],
    kwargs: dict[str, Argument],
    inputs: dict[Node, None],
    return_type: object | None,
) -> Node:
    """A node from already normalised arguments, with the nodes among them as ``inputs``; unchecked."""
    node = _allocate(Node)
    node.graph = graph
    node._name = name
    node._op = op
    node._target = target
    node.type = return_type
    node.users = {}
    node._meta = None
    node._module_stack = None
    node._erased = False
    node._repr_fn = None
    node._site = None
    node._sort_key = None
    node._prev = node._next = node
    node._input_nodes = inputs
    node._args = args
    node._kwargs = kwargs
    for used in inputs:
        used.users[node] = None
    return node


def _nth_node(graph: "Graph", number: int) -> Node:
    return next(itertools.islice(graph.nodes, number, None))
