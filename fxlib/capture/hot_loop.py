"""The hot loop of a trace: from an operation on proxies to its node in one pass.

`Tracer` goes through here when the steps between (``create_proxy``, ``create_arg``, ``create_node``, …) are not
overridden; both ways record the same, and tests compare them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch.nn import Parameter

from fxlib.capture.arguments import IMMEDIATE
from fxlib.capture.metadata import inherited
from fxlib.capture.proxy import Attribute, Proxy
from fxlib.interop.torch_side import torch_traceback_state as _meta_state
from fxlib.ir.arguments import _ATOMS, Target
from fxlib.ir.collections import immutable_dict
from fxlib.ir.node import Node, _map_nodes, _new_node

if TYPE_CHECKING:
    from fxlib.capture.wrapping import Patcher
    from fxlib.ir.graph import Graph

__all__ = ["collector_paused", "make_call_hook", "make_emit", "make_getattr_hook"]

# Values that need no further look once lowered.
_PLAIN = _ATOMS
_NO_KWARGS: immutable_dict = immutable_dict()


def _collect(a: Any, inputs: dict[Node, None]) -> Any:
    """A lowered argument in the form that nodes keep, its nodes added to ``inputs``."""
    kind = type(a)
    if kind is Node:
        inputs[a] = None
        return a
    if kind in _PLAIN:
        return a
    normal = _map_nodes(a, _same)
    _add_nodes(normal, inputs)
    return normal


def _same(node: Node) -> Node:
    return node


def _add_nodes(a: object, inputs: dict[Node, None]) -> None:
    if isinstance(a, Node):
        inputs[a] = None
    elif isinstance(a, (tuple, list)):
        for item in a:
            _add_nodes(item, inputs)
    elif isinstance(a, dict):
        for item in a.values():
            _add_nodes(item, inputs)
    elif isinstance(a, slice):
        for item in (a.start, a.stop, a.step):
            _add_nodes(item, inputs)


# Function, method name or path -> the preferred name of its nodes.
_candidates: dict[Target, str] = {}


def _candidate(graph: Graph, target: Target) -> str:
    name = graph._target_to_str(target)
    try:
        if len(_candidates) > 20_000:
            _candidates.clear()
        _candidates[target] = name
    except TypeError:  # a callable without a hash
        pass
    return name


def make_emit(tracer: Any, share_stacks: bool) -> Callable[..., Proxy]:
    """What `TracerBase._emit` does, for a tracer that overrides none of the steps.

    ``share_stacks`` says that ``module_stack`` changes only where ``_stack_changed`` is set.
    """
    graph, create_arg, take_site = tracer.graph, tracer.create_arg, tracer._take_site
    create_name, new_node, link = graph._graph_namespace.create_name, _new_node, graph._link
    immediate, candidates = IMMEDIATE, _candidates
    scopes, scope, stack = tracer.node_name_to_scope, tracer.scope, tracer.module_stack
    new_proxy, frame_at = Proxy.__new__, sys._getframe
    snapshot: Any = None
    scope_of_snapshot: tuple[str, Any] = (scope.module_path, scope.module_type)

    def emit(
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: Any = None,
        site: Any = None,
        frame: Any = None,
        leaf: Any = None,
    ) -> Proxy:
        # ``leaf`` is the scope entry of a leaf module, ``frame`` where it was called.
        nonlocal snapshot, scope_of_snapshot, stack
        inputs: dict[Node, None] = {}
        lowered = []
        for a in args:
            kind_of = type(a)
            if kind_of is Proxy or kind_of is Attribute:
                a = a.node
                inputs[a] = None
            elif kind_of not in immediate:
                a = _collect(create_arg(a), inputs)
            lowered.append(a)
        if kwargs:
            options = {}
            for key, a in kwargs.items():
                options[key] = a if type(a) in immediate else _collect(create_arg(a), inputs)
            kwargs = immutable_dict(options)
        else:
            kwargs = _NO_KWARGS
        if site is None:
            if frame is None:
                frame = frame_at(2)
            if frame is tracer._site_frame:
                site = (frame.f_code, frame.f_lasti, tracer._site_parent)
            elif frame is tracer._site_inner:
                site = tracer._site_base
            else:
                site = take_site(frame)
        if name is None:
            try:
                name = candidates[target]
            except (KeyError, TypeError):
                name = _candidate(graph, target)
        node: Any = new_node(graph, create_name(name, None), kind, target, tuple(lowered), kwargs, inputs, None)
        link(node)
        node._site = site
        if _meta_state.should_preserve_node_meta:
            node.meta.update(inherited())
            stacked = False
        else:
            if not share_stacks:
                stack = tracer.module_stack
            stacked = leaf is not None or len(stack) > 0
        if stacked:
            if tracer._stack_changed or not share_stacks:
                # Never changed again, so the nodes of one module call share it.
                snapshot = stack.copy()
                tracer._stack_changed = False
            node._module_stack = snapshot if leaf is None else (snapshot, *leaf)
        if leaf is not None:
            scopes[node._name] = leaf[1]
        else:
            if scope.module_path is not scope_of_snapshot[0] or scope.module_type is not scope_of_snapshot[1]:
                scope_of_snapshot = (scope.module_path, scope.module_type)
            scopes[node._name] = scope_of_snapshot
        proxy = new_proxy(Proxy)
        proxy.tracer = tracer
        proxy.node = node
        return proxy

    return emit


def make_getattr_hook(tracer: Any, original: Any, parameter_proxy_cache: dict[str, Proxy]) -> Callable[..., Any]:
    """``Module.__getattr__``, except for submodules, for a tracer that overrides none of the steps, `Tracer.getattr`
    too."""
    frame_at = sys._getframe
    getattr_of, emit = tracer.getattr, tracer._emit
    owned: dict[int, tuple[dict[str, Any], str, str]] = {}

    def module_getattr(mod: Any, attr: Any) -> Any:
        value = mod.__dict__["_parameters"].get(attr)
        if type(value) is Parameter:
            # id -> (dict that holds the parameter, its key there, its path), see `Tracer._owned_name`.
            known = owned.get(id(value))
            if known is None:
                tracer._owned_name("_parameters", value)
                owned.update(tracer._owned["_parameters"])
                known = owned.get(id(value))
            if known is not None and known[0].get(known[1]) is value:
                name = known[2]
                proxy = parameter_proxy_cache.get(name)
                if proxy is None:
                    proxy = parameter_proxy_cache[name] = emit("get_attr", name, (), {}, None, None, frame_at(2))
                return proxy
        return getattr_of(attr, original(mod, attr), parameter_proxy_cache)

    return module_getattr


def make_call_hook(tracer: Any, original: Any, patcher: Patcher) -> Callable[..., Any]:
    """``Module.__call__`` for a tracer that overrides neither `Tracer.call_module` nor `Tracer.path_of_module`."""
    paths, path_of_module, is_leaf = tracer.submodule_paths or {}, tracer.path_of_module, tracer.is_leaf_module
    num_calls, stack, scope = tracer.num_calls, tracer.module_stack, tracer.scope
    ids, autowrap, emit = tracer._autowrap_function_ids, patcher.autowrap, tracer._emit
    usual = tracer._inherits("is_leaf_module")
    leaf_types: dict[type, bool] = {}
    call_inside, frame_at = tracer._call_inside, sys._getframe

    def module_call(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cls = type(mod)
        leaf = leaf_types.get(cls)
        if leaf is None or "forward" in mod.__dict__:
            autowrap(getattr(getattr(mod, "forward", mod), "__globals__", {}), ids)
        path = paths.get(mod)
        if path is None:
            path = path_of_module(mod)
        calls = num_calls.get(path, 0)
        num_calls[path] = calls + 1
        key = f"{path}@{calls}" if calls else path
        entry = (path, cls)
        # The caller of the code that calls this hook.
        frame = frame_at(2)
        if (
            leaf
            and usual
            and not kwargs
            and (type(args[0]) is Proxy if len(args) == 1 else all([type(a) is Proxy for a in args]))
        ):
            # Lowering the arguments creates no nodes and calls no override, so the stack need not be set up.
            try:
                return emit("call_module", path, args, kwargs, None, None, frame, (key, entry))
            except BaseException:
                stack[key] = entry  # as below
                tracer._stack_changed = True
                raise
        outer_path, outer_type = scope.module_path, scope.module_type
        scope.module_path, scope.module_type = entry
        try:
            stack[key] = entry
            tracer._stack_changed = True
            if leaf is None or not usual:
                leaf = leaf_types[cls] = is_leaf(mod, path)
            if leaf:
                result = emit("call_module", path, args, kwargs, None, None, frame)
            else:
                result = call_inside(tracer._take_site(frame), original, (mod, *args), kwargs)
            # Not undone on an exception, as in torch.fx: a program that swallows one fails here in both.
            last, _ = stack.popitem()
            tracer._stack_changed = True
            if last != key:
                raise AssertionError(f"Unexpected key {last}, expected {key}")
            return result
        finally:
            scope.module_path, scope.module_type = outer_path, outer_type

    return module_call


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: a trace creates many objects and drops few, so collections would free
    nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
