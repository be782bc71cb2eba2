"""Node: one operation of a graph, its arguments, and who uses its value.

Arguments are kept as immutable collections, and every change of them updates the use-def links both ways. Where a
node stands is left to ``_order``, how it is written to ``_format``, and where it came from to ``span``.
"""

import copy
import itertools
import logging
import operator
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

# Names that programs import from here although other files define them.
from fxlib.ir.arguments import (
    _ATOMS,
    Argument,
    ArgumentT,
    Target,
    _legal_ops,
    map_aggregate,
)
from fxlib.ir.collections import immutable_dict, immutable_list
from fxlib.ir.effects import (
    has_side_effect,
    is_impure_call,
)
from fxlib.ir.format import (
    _format_node,
    _pretty_print_target,
)
from fxlib.ir.order import compare, link_before, unlink

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

log = logging.getLogger(__name__)


def map_arg(a: ArgumentT, fn: Callable[["Node"], Argument]) -> ArgumentT:
    """Apply ``fn`` to every Node in ``a``; everything else stays.

    Raises:
        AssertionError: ``fn`` is not callable.
    """
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return _map_nodes(a, fn)


def _map_nodes(a: Any, fn: Callable[["Node"], Any]) -> Any:
    kind = type(a)
    if kind is Node:
        return fn(a)
    if kind in _ATOMS:
        return a
    if isinstance(a, (tuple, list)):
        items = [fn(item) if (t := type(item)) is Node else item if t in _ATOMS else _map_nodes(item, fn) for item in a]
        if isinstance(a, list):
            return immutable_list(items)
        return kind(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, dict):
        return immutable_dict([(k, _map_nodes(v, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(_map_nodes(a.start, fn), _map_nodes(a.stop, fn), _map_nodes(a.step, fn))
    return fn(a) if isinstance(a, _node_types) else a


def _replace_hooks(graph: Any) -> Iterable[Callable[..., Any]]:
    return getattr(graph._owning_module, "_replace_hooks", None) or ()


class Node:
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
        "__dict__",
        "__weakref__",
        "_args",
        "_erased",
        "_input_nodes",
        "_kwargs",
        "_meta",
        "_module_stack",
        "_name",
        "_next",
        "_op",
        "_prev",
        "_repr_fn",
        "_site",
        "_sort_key",
        "_target",
        "graph",
        "type",
        "users",
    )  # fmt: skip

    _args: tuple[Argument, ...]
    _kwargs: dict[str, Argument]
    graph: "Graph"
    users: dict["Node", None]
    _input_nodes: dict["Node", None]
    _meta: dict[str, Any] | None
    _target: Any
    # Made when first asked for, see ``_order``.
    _sort_key: int | None

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: "Target",
        args: tuple["Argument", ...],
        kwargs: dict[str, "Argument"],
        return_type: Any | None = None,
    ) -> None:
        """
        Raises:
            AssertionError: ``op`` is none of the six.
            ValueError: ``target`` is not callable although ``op`` is ``call_function``, or not a string otherwise.
        """
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
                    "but a Callable is expected"
                )
        elif op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
                "but a str is expected"
            )
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

    def _get_table(self) -> Any:
        table = self.graph._find_nodes_lookup_table
        return table if table is not None and self in table else None

    def _set_indexed(self, slot: str, value: Any) -> None:
        table = self._get_table()
        if table:
            table.remove(self)
        setattr(self, slot, value)
        if table:
            table.insert(self)

    def _set_op(self, value: str) -> None:
        self._set_indexed("_op", value)

    def _set_target(self, value: "Target") -> None:
        self._set_indexed("_target", value)

    def _set_name(self, value: str) -> None:
        for hook in _replace_hooks(self.graph):
            for user in self.users:
                hook(old=self, new=value, user=user)
        self._name = value

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the node, by name. Made when first asked for: most nodes of most traces are never asked."""
        meta = self._meta
        if meta is None:
            meta = self._meta = {}
            stack = self._module_stack
            if stack is not None:
                if type(stack) is tuple:
                    # A leaf's, kept as (stack of the caller, key, entry).
                    stack, key, entry = stack
                    meta["nn_module_stack"] = copied = copy.copy(stack)
                    copied[key] = entry
                else:
                    meta["nn_module_stack"] = copy.copy(stack)
        return meta

    @meta.setter
    def meta(self, value: dict[str, Any]) -> None:
        self._meta = value

    # The getters are in C: these three are read far more often than anything else here.
    op = property(attrgetter("_op"), _set_op, doc="One of the six operations.")
    target = property(attrgetter("_target"), _set_target, doc="What is called or read; its type depends on ``op``.")
    name = property(attrgetter("_name"), _set_name, doc="Unique in the graph; the variable in generated code.")

    def _rename(self, candidate: str) -> None:
        """Give the node the free name closest to ``candidate``."""
        if candidate == self._name:
            return
        self.name = self.graph._graph_namespace.create_name(candidate, None)

    def _copy_origin(self, other: "Node") -> None:
        """Take over the ``meta`` of another node, one level deep, and where it was recorded."""
        if not isinstance(other, Node):
            self._meta = copy.copy(other.meta)
            return
        self._site = other._site
        self._module_stack = other._module_stack
        if other._meta is not None:
            self._meta = copy.copy(other._meta)

    @property
    def stack_trace(self) -> str | None:
        """Where the operation was recorded, as text, if the tracer kept it in ``meta``."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @property
    def span(self) -> Any:
        """The source range of the operation in the user's code, a ``fxlib.span.Span`` or None."""
        if self._site is None:
            return None
        from fxlib.ir.span import resolve

        return resolve(self._site)

    @property
    def call_path(self) -> Any:
        """The source ranges from the traced function's frame down to ``span``."""
        if self._site is None:
            return ()
        from fxlib.ir.span import call_path

        return call_path(self._site)

    # --- where it stands ----------------------------------------------------------------------------------------------

    @property
    def next(self) -> "Node":
        """The node after this one; the graph's root after the last."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node before this one; the graph's root before the first."""
        return self._prev

    def prepend(self, x: "Node") -> None:
        """Move (or insert) ``x`` right before this node.

        Raises:
            AssertionError: ``x`` belongs to another graph.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            log.debug("Trying to prepend a node to itself. This behavior has no effect on the graph.")
            return
        before, after = x._prev, x._next
        before._next = after
        after._prev = before
        link_before(self, x)

    _prepend = prepend

    def append(self, x: "Node") -> None:
        """Move (or insert) ``x`` right after this node.

        Raises:
            AssertionError: ``x`` belongs to another graph.
        """
        if self is x:
            return
        follower = self._next
        if self.graph is not x.graph or follower is x:
            follower.prepend(x)  # says what is wrong with it
            return
        # As ``prepend`` of what follows, but written out: passes that sort a graph do this for every node.
        before, after = x._prev, x._next
        before._next = after
        after._prev = before
        self._next = follower._prev = x
        x._prev = self
        x._next = follower
        x._sort_key = None

    def _remove_from_list(self) -> None:
        unlink(self)

    # Asking forgiveness: comparisons of nodes are hot, nodes not yet labelled and mistakes are rare.
    def __lt__(self, other: "Node") -> bool:
        try:
            return self._sort_key < other._sort_key  # type: ignore[operator]
        except (TypeError, AttributeError):
            return compare(self, other, operator.lt)

    def __gt__(self, other: "Node") -> bool:
        try:
            return self._sort_key > other._sort_key  # type: ignore[operator]
        except (TypeError, AttributeError):
            return compare(self, other, operator.gt)

    def __le__(self, other: "Node") -> bool:
        try:
            return self._sort_key <= other._sort_key  # type: ignore[operator]
        except (TypeError, AttributeError):
            return compare(self, other, operator.le)

    def __ge__(self, other: "Node") -> bool:
        try:
            return self._sort_key >= other._sort_key  # type: ignore[operator]
        except (TypeError, AttributeError):
            return compare(self, other, operator.ge)

    # --- arguments and uses -------------------------------------------------------------------------------------------

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        """Take normalised copies of the arguments and register as a user of every node in them.

        The node must be registered with none (``_drop_inputs``).
        """
        inputs = self._input_nodes
        if type(args) is tuple:
            for a in args:
                kind = type(a)
                if kind is Node:
                    inputs[a] = None
                    a.users[self] = None
                elif kind not in _ATOMS:
                    args = self._register(args)
                    break
        else:
            args = self._register(args)
        self._args = args
        if kwargs or type(kwargs) is not immutable_dict:
            kwargs = self._register(kwargs) if kwargs or not isinstance(kwargs, dict) else immutable_dict()
        self._kwargs = kwargs

    def _register(self, a: Any) -> Any:
        kind = type(a)
        if kind is Node:
            self._input_nodes[a] = None
            a.users[self] = None
            return a
        if kind in _ATOMS:
            return a
        register = self._register
        if isinstance(a, tuple):
            items = [register(item) for item in a]
            return kind(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return immutable_list([register(item) for item in a])
        if isinstance(a, dict):
            return immutable_dict([(k, register(v)) for k, v in a.items()])
        if isinstance(a, slice):
            return slice(register(a.start), register(a.stop), register(a.step))
        if isinstance(a, Node):
            self._input_nodes[a] = None
            a.users[self] = None
        return a

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

    args = property(
        attrgetter("_args"),
        _set_args,
        doc="Positional arguments; what they mean depends on ``op``. Assign a new tuple to change them.",
    )
    kwargs = property(attrgetter("_kwargs"), _set_kwargs, doc="Keyword arguments. Assign a new dict to change them.")

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
            delete_user_cb: asked for each user; where it says False, the user stays as it is.
            propagate_meta: copy this node's ``meta`` to ``replace_with``, which must have none.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = list(self.users)
        if delete_user_cb is not None:
            changed = [user for user in changed if delete_user_cb(user)]
        hooks = _replace_hooks(self.graph)
        for user in changed:
            if hooks:
                for hook in hooks:
                    hook(old=self, new=replace_with.name, user=user)
            user._replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Use ``new_input`` wherever the arguments have ``old_input``."""
        for hook in _replace_hooks(self.graph):
            hook(old=old_input, new=new_input.name, user=self)
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

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node does more than give a value, so that it must stay even when nothing uses it.

        Args:
            impure_random: count operators that draw random numbers.

        Raises:
            AssertionError: ``call_module`` in a graph whose module is missing or lacks the submodule.
        """
        return is_impure_call(self, impure_random)

    def normalized_arguments(
        self,
        root: torch.nn.Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments with defaults filled in and in the order of the callee's signature.

        Args:
            root: the module that ``call_module`` targets are looked up in.
            arg_types, kwarg_types: types that help to choose among overloads.
            normalize_to_only_use_kwargs: name every argument.

        Returns:
            An ``ArgsKwargsPair``, or None where no signature is known.
        """
        from fxlib.ir.schemas import normalize_function, normalize_module

        target, args, kwargs, named = self._target, self._args, self._kwargs, normalize_to_only_use_kwargs
        if self._op == "call_function":
            return normalize_function(target, args, kwargs, arg_types, kwarg_types, named)
        if self._op == "call_module":
            return normalize_module(root, target, args, kwargs, named)
        return None

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

    _pretty_print_target = staticmethod(_pretty_print_target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as one line of the printed graph.

        Args:
            placeholder_names: accepted, and left as it is.
            maybe_return_typename: if given, the type of the output is written to its first element.
            include_tensor_metadata: show dtype and shape where ``meta`` has them.
        """
        return _format_node(self, maybe_return_typename)


_allocate = object.__new__

# Node classes whose instances count as nodes among arguments; interop adds torch.fx's, so that an Interpreter or a
# matcher can be given a graph of torch.fx.
_node_types: tuple[type, ...] = (Node,)


def _new_node(
    graph: "Graph",
    name: str,
    op: str,
    target: "Target",
    args: tuple[Argument, ...],
    kwargs: dict[str, Argument],
    inputs: dict[Node, None],
    return_type: Any | None,
) -> Node:
    """A node from arguments that are normalised already, with the nodes among them as ``inputs``; checks nothing."""
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
