"""Running a graph node by node, with one overridable method per opcode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import torch

from fxlib import config
from fxlib.capture import metadata as fx_traceback
from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import Argument, Target
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg
from fxlib.ir.paths import follow, read
from fxlib.ir.views import last_users

__all__ = ["Interpreter"]

_IMMEDIATE = frozenset({int, float, bool, str, type(None), complex, torch.dtype, torch.device})
_FLUENT_HOOKS = ("run_node", "fetch_args_kwargs_from_env", "map_nodes_to_values", "_set_current_node")
_NOTHING = object()


class Interpreter:
    """Runs a graph node by node, with an overridable method for every opcode.

    Override ``run_node`` to see or change every node, one of ``placeholder``, ``get_attr``, ``call_function``,
    ``call_method``, ``call_module``, ``output`` for one opcode, ``fetch_attr`` to read attributes from elsewhere, and
    ``map_nodes_to_values`` to look values up differently.

    Example::

        class Largest(fxlib.Interpreter):
            def run_node(self, node):
                value = super().run_node(node)
                if isinstance(value, torch.Tensor):
                    self.largest = max(getattr(self, "largest", (0.0, "")), (value.abs().max().item(), node.name))
                return value

        check = Largest(gm)
        check.run(torch.randn(3, 4))
        print("%g in %s" % check.largest)

    Args:
        module: the module to be run; submodules and attributes are looked up on it.
        garbage_collect_values: drop each value after its last use. Turn it off to look at ``env`` afterwards.
        graph: run this graph instead of ``module.graph``.
    """

    def __init__(
        self, module: torch.nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        if graph is None:
            check_traced(module, f"{type(self).__name__}()")
        self.module = module
        self.graph: Graph = cast(GraphModule, module).graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.garbage_collect_values = garbage_collect_values
        if garbage_collect_values:
            self.user_to_last_uses = _last_uses(self.graph)
        self.env: dict[Node, Any] = {}

    # The name shown in progress bars, and whether errors name the node.
    name = "Interpreter"
    extra_traceback = True

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph and returns what it outputs.

        Args:
            *args: the values of the placeholders, in order.
            initial_env: values of nodes, which are then not run; for a graph that was partly run before.
            enable_io_processing: pass inputs and output through the graph's ``process_inputs`` and ``process_outputs``.

        Raises:
            what a node raised, with the node, and the stack trace recorded for it, added to the message. A ``KeyError``
            becomes a ``RuntimeError``, since a ``KeyError`` would print its message quoted.
        """
        inputs = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(inputs)
        self.env = {} if initial_env is None else initial_env
        nodes = self.graph.nodes
        if config.disable_progress:
            return self._run_nodes(nodes, enable_io_processing)

        from torch.hub import tqdm

        label = self.name if config.verbose_progress else type(self).__name__
        with tqdm(total=len(nodes), desc=f"{label}: {self.graph!s}" if config.verbose_progress else label) as bar:
            return self._run_nodes(nodes, enable_io_processing, bar.update)

    def _run_nodes(
        self, nodes: Iterable[Node], enable_io_processing: bool, progress: Callable[[int], object] | None = None
    ) -> Any:
        env = self.env
        last_uses = self.user_to_last_uses if self.garbage_collect_values else None
        # The method may be called directly unless a hook is overridden.
        cls = type(self)
        fluent = all(getattr(cls, hook) is getattr(Interpreter, hook) for hook in _FLUENT_HOOKS) and not any(
            hook in self.__dict__ for hook in _FLUENT_HOOKS
        )
        fluent = fluent and not fx_traceback.has_preserved_node_meta()
        function_is_ours = cls.call_function is Interpreter.call_function and "call_function" not in self.__dict__
        for node in nodes:
            if progress is not None:
                progress(1)
            if node in env:
                # Given by initial_env, so it is not run.
                continue
            try:
                if fluent:
                    op = node.op
                    args = self._values(node.args, node, env)
                    kwargs = self._values(node.kwargs, node, env) if node.kwargs else {}
                    if op == "call_function" and function_is_ours:
                        value = node.target(*args, **kwargs)
                    else:
                        value = getattr(self, op)(node.target, args, kwargs)
                else:
                    value = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(error, node)
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            env[node] = value
            if last_uses is not None:
                for dead in last_uses.get(node, ()):
                    del env[dead]
            if node.op == "output":
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def _values(self, args: Any, node: Node, env: dict[Node, Any]) -> Any:
        """``args`` with values for nodes; flat tuples, the usual case, without a general traversal."""
        if isinstance(args, tuple):
            values = []
            for arg in args:
                kind = type(arg)
                if kind is Node:
                    try:
                        values.append(env[arg])
                        continue
                    except KeyError:
                        return self.map_nodes_to_values(args, node)
                if kind not in _IMMEDIATE:
                    return self.map_nodes_to_values(args, node)
                values.append(arg)
            return tuple(values)
        return self.map_nodes_to_values(args, node)

    def _explain(self, error: Exception, node: Node) -> None:
        message = f"While executing {node.format_node()}"
        if error.args:
            message = f"{error.args[0]}\n\n{message}"
        message += f"\nOriginal traceback:\n{_origin(node)}"
        message += (
            "\nUse tlparse to see full graph. "
            "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)"
        )
        error.args = (message, *error.args[1:])

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Runs the graph on a list of inputs, which is emptied so that inputs can be freed after their last use.

        Raises:
            RuntimeError: when the length of ``args_list`` is not the number of placeholders.
        """
        inputs = self.graph.find_nodes(op="placeholder")
        _check_count(len(args_list), len(inputs))
        env = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def _set_current_node(self, node: Node) -> contextlib.AbstractContextManager[None]:
        return fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}")

    def run_node(self, n: Node) -> Any:
        """Runs one node, by the method named like its opcode, and returns its value. Override to act on every node."""
        with self._set_current_node(n):
            return self._dispatch(n, *self.fetch_args_kwargs_from_env(n))

    def _dispatch(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(self, node.op)(node.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next input; all that are left for ``*name``; else the default, which is ``args[0]``.

        Raises:
            RuntimeError: neither an input nor a default is left.
        """
        if as_path(target)[:1] == "*":
            return [*self.args_iter]
        value = next(self.args_iter, _NOTHING)
        return _default(target, args) if value is _NOTHING else value

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute ``target`` of the module."""
        return self.fetch_attr(as_path(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """``target(*args, **kwargs)``."""
        if isinstance(target, str):
            raise AssertionError("target should not be a string for call_function")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """``args[0].target(*args[1:], **kwargs)``."""
        method = getattr(args[0], as_path(target))
        return method(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The submodule ``target`` called with the arguments."""
        return self.fetch_attr(as_path(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The value that the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at the dotted path ``target``.

        Raises:
            RuntimeError: there is none; the message holds the part of the path that was sought.
        """
        try:
            return read(self.module, target)
        except AttributeError:
            names, missing = target.split("."), follow(self.module, target).missing
            if not missing:
                raise
            sought = names[: len(names) - len(missing) + 1]
            raise RuntimeError(f"Node referenced nonexistent target {'.'.join(sought)}") from None

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of ``n``, with nodes replaced by their values."""
        args, kwargs = (self.map_nodes_to_values(given, n) for given in (n.args, n.kwargs))
        return cast("tuple[Any, ...]", args), cast("dict[str, Any]", kwargs)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """``args``, arbitrarily nested, with each node replaced by its value.

        Raises:
            RuntimeError: a node has no value yet; ``graph.lint()`` explains why.
        """
        return map_arg(args, partial(self._value_of, n))

    def _value_of(self, user: Node, node: Node) -> Any:
        value = self.env.get(node, _NOTHING)
        if value is _NOTHING:
            raise RuntimeError(
                f"Node {user} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
            )
        return value


def _check_count(given: int, wanted: int) -> None:
    if given != wanted:
        kind = "extra" if given > wanted else "missing"
        raise RuntimeError(
            f"Interpreter.boxed_run expected {wanted} arguments for placeholders but received {given} "
            f"({kind} arguments)"
        )


def _default(parameter: Target, default: tuple[Any, ...]) -> Any:
    if not default:
        raise RuntimeError(f"Expected positional argument for parameter {parameter}, but one was not passed in!")
    return default[0]


def _origin(node: Node) -> str | None:
    """The stack trace that was recorded with the node, or else its source lines, outermost first."""
    if node.stack_trace is not None:
        return node.stack_trace
    places = [f'  File "{place.file}", line {place.line}, column {place.column + 1}' for place in node.call_path]
    return "\n".join(places) or None


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node, the nodes whose values are not needed after it has run."""
    last = last_users(graph.nodes)
    dying = ((user, [used for used in user._input_nodes if last[used] is user]) for user in reversed(graph.nodes))
    return {user: dead for user, dead in dying if dead}


def as_path(target: Target) -> str:
    """A target that has to be a name or a dotted path.

    Raises:
        AssertionError: it is not one.
    """
    if not isinstance(target, str):
        raise AssertionError(f"Expected target to be str, got {type(target)}")
    return target
