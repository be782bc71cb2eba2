"""Running a graph node by node: Interpreter and Transformer.

Interpreter evaluates a graph with one overridable method per opcode; Transformer does the same with proxies in place of
values, so that running the graph writes a new one. What a generated ``forward`` is belongs to ``codegen``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fxlib import config
from fxlib.capture import metadata as fx_traceback
from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.arguments import Argument, Target, map_aggregate
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg

__all__ = ["Interpreter", "Transformer"]

_IMMEDIATE = frozenset({int, float, bool, str, type(None), complex, torch.dtype, torch.device})
_FLUENT_HOOKS = ("run_node", "fetch_args_kwargs_from_env", "map_nodes_to_values", "_set_current_node")


class Interpreter:
    """Runs a graph node by node, with an overridable method for every opcode.

    Override ``run_node`` to see or change every node, one of ``placeholder``, ``get_attr``, ``call_function``,
    ``call_method``, ``call_module``, ``output`` for one opcode, ``fetch_attr`` to serve attributes from elsewhere and
    ``map_nodes_to_values`` to look values up in another way.

    Example::

        class SwapNeg(Interpreter):
            def call_function(self, target, args, kwargs):
                if target is torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

        result = SwapNeg(gm).run(torch.randn(3, 4))

    Args:
        module: the module to be run; submodules and attributes are looked up on it.
        garbage_collect_values: drop each value after its last use. Turn it off to look at ``env`` afterwards.
        graph: run this graph instead of ``module.graph``.
    """

    def __init__(
        self, module: torch.nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses = _last_uses(self.graph)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph and returns what it outputs.

        Args:
            *args: the values of the placeholders, in order.
            initial_env: values for nodes that then are not run; for a graph that was run in part before.
            enable_io_processing: pass inputs and output through the graph's ``process_inputs`` and ``process_outputs``.

        Raises:
            what a node raised, with the node, and the stack trace recorded for it, added to the message. A ``KeyError``
            becomes a ``RuntimeError``, since a ``KeyError`` would print its message quoted.
        """
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        nodes: Any = self.graph.nodes
        if config.disable_progress:
            return self._run_nodes(nodes, enable_io_processing)

        from torch.hub import tqdm

        label = self.name if config.verbose_progress else type(self).__name__
        with tqdm(total=len(nodes), desc=f"{label}: {self.graph!s}" if config.verbose_progress else label) as bar:
            return self._run_nodes(nodes, enable_io_processing, bar.update)

    def _run_nodes(self, nodes: Any, enable_io_processing: bool, progress: Any = None) -> Any:
        env = self.env
        last_uses = self.user_to_last_uses if self.garbage_collect_values else None
        # Between "called by the letter" and "called directly" only overridden hooks can tell the difference.
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
                # Given by initial_env: a part of the graph that needs no run.
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
        """``args`` with values for nodes; flat tuples, nearly all there are, without a general traversal."""
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
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(placeholders) != len(args_list):
            extra = "extra" if len(args_list) > len(placeholders) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders "
                f"but received {len(args_list)} ({extra} arguments)"
            )
        env = dict(zip(placeholders, args_list, strict=False))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Runs one node, by the method named like its opcode, and returns its value. Override to act on every node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next input; all that are left for ``*name``; else the default, which is ``args[0]``.

        Raises:
            RuntimeError: neither an input nor a default is left.
        """
        _expect_str(target)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as stop:
            if len(args) > 0:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from stop

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute ``target`` of the module."""
        _expect_str(target)
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """``target(*args, **kwargs)``."""
        if isinstance(target, str):
            raise AssertionError("target should not be a string for call_function")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """``args[0].target(*args[1:], **kwargs)``."""
        receiver, *rest = args
        _expect_str(target)
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The submodule ``target`` called with the arguments."""
        _expect_str(target)
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The value that the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at the dotted path ``target``.

        Raises:
            RuntimeError: there is none; the message holds the part of the path that was sought.
        """
        found = self.module
        path = target.split(".")
        for depth, name in enumerate(path):
            if not hasattr(found, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(path[: depth + 1])}")
            found = getattr(found, name)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of ``n`` with values in place of nodes."""
        args: Any = self.map_nodes_to_values(n.args, n)
        kwargs: Any = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """``args``, arbitrarily nested, with each node replaced by its value.

        Raises:
            RuntimeError: a node has no value, which ``graph.lint()`` explains.
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


def _origin(node: Node) -> str | None:
    """The trace that was recorded with the node, or else the places in the source that led to it, outermost first."""
    if node.stack_trace is not None:
        return node.stack_trace
    places = [
        f'  File "{place.file}", line {place.line}, column {place.column + 1}'
        for place in getattr(node, "call_path", ())
    ]
    return "\n".join(places) or None


class Transformer(Interpreter):
    """Writes a new GraphModule by running a graph on proxies.

    Override the methods of Interpreter: what they do to the proxies is recorded in the result.

    Example::

        class SigmoidToNeg(Transformer):
            def call_function(self, target, args, kwargs):
                if target is torch.sigmoid:
                    return torch.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

        transformed = SigmoidToNeg(gm).transform()
    """

    def __init__(self, module: GraphModule) -> None:
        module = adopted(module)
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy for a placeholder of the new graph. Override to add, rename or annotate inputs."""
        _expect_str(target)
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A proxy for an attribute of the module."""
        _expect_str(target)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the submodule on proxies: a leaf is recorded, any other module is traced into."""
        _expect_str(target)
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs the graph on proxies and returns the module made of what was recorded."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(value: Any) -> Any:
                return value.node if isinstance(value, Proxy) else value

            output = self.new_graph.output(map_aggregate(result, strip))
            for old in reversed(self.graph.nodes):
                if old.op == "output":
                    output.meta = dict(old.meta)
                    break
        return GraphModule(self.module, self.new_graph)


class _TransformerTracer(Tracer):
    """Records into the graph it is given and calls every submodule as a leaf, since the old graph is already flat."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs: dict[torch.Tensor, str] = {}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node those whose value nobody needs after it has run."""
    last_user: set[Node] = set()
    dying: dict[Node, list[Node]] = {}
    for user in reversed(graph.nodes):
        for used in user._input_nodes:
            if used not in last_user:
                last_user.add(used)
                dying.setdefault(user, []).append(used)
    return dying


def _expect_str(target: Target) -> None:
    if not isinstance(target, str):
        raise AssertionError(f"Expected target to be str, got {type(target)}")
