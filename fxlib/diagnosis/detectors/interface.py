"""The edges of the graph: concrete arguments, example inputs, the type of the output, threads, hooks, other graphs."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from typing import Any

from torch import nn

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.capture.root_arguments import PHBase
from fxlib.diagnosis.engine.forms import called_name
from fxlib.diagnosis.engine.inputs import signature_of
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import function_tree, head_of, span_of
from fxlib.interop import torch_side
from fxlib.ir.leaves import leaves_once
from fxlib.ir.span import is_hidden

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]

_HOOKS = ("register_forward_hook", "register_forward_pre_hook")
_REGISTER = (*_HOOKS, "register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook")
_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")


def _look_return(node: ast.Return, found: Found) -> None:
    if node.value is not None:
        found.append(("return", node.value))


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name in _HOOKS and isinstance(function, ast.Attribute):
        found.append(("hook", function.value))
    elif name == "deepcopy":
        found.append(("copy", node))


def concrete_names(search: Search) -> None:
    """FX219 and FX220: names in ``concrete_args``."""
    run, subject = search.best, search.subject
    concrete = subject.concrete_args
    signature = signature_of(subject.root)
    if not isinstance(concrete, Mapping) or signature is None:
        return
    for name, value in concrete.items():
        if name not in signature.parameters:
            says = f"`{subject.function_name}` has no argument `{name}`, so concrete_args ignores it"
            run.add("FX219", subject.definition, says, data={"argument": name})
        elif not isinstance(value, PHBase) and value is not None and not _nested(value):
            renamed = [n for n in run.nodes if n.op == "placeholder" and str(n.target).startswith(name + "_")]
            if renamed:
                says = f"`{name}` becomes `{renamed[0].target}` in the graph, so passing it by keyword fails"
                run.add("FX220", subject.definition, says, node=renamed[0].name, data={"argument": name})


def _nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def inputs_fit(search: Search) -> None:
    """FX303: the example inputs do not fit the signature."""
    if search.subject.misfit is not None:
        search.best.add("FX303", search.subject.definition, f"The example inputs do not fit: {search.subject.misfit}")


def returned(run: Run, probe: Probe, value: Any) -> None:
    """FX223: the root returns a dict of a class of its own."""
    if isinstance(value, Proxy) or not isinstance(value, dict) or type(value) is dict:
        return
    if probe.code is not run.subject.code:
        return
    name = "OrderedDict" if type(value) is OrderedDict else type(value).__name__
    run.add("FX223", run.place_of_probe(probe), f"The graph returns a plain dict instead of the {name}")


def threads(search: Search) -> None:
    """FX228: a node was recorded by code that the root's forward did not call."""
    run = search.best
    elsewhere = run.tracer.elsewhere
    for node in run.nodes if elsewhere else ():
        name = elsewhere.get(node._site)
        if name is not None:
            run.add("FX228", run.place_of_node(node), detail=f"The thread is {name}", node=node.name)
            break


def hooked(run: Run, probe: Probe, value: Any) -> None:
    """Collects hooks that forward itself registers, for `lost_hooks`."""
    if isinstance(value, nn.Module):
        call = probe.node.parent.parent
        run.notes.hooks[probe.span] = (run.place_of_probe(probe).widened(call), value)


def lost_hooks(search: Search) -> None:
    """FX233: hooks and a `__call__` of the root, which a trace does not call, and hooks that forward registers on a
    leaf."""
    run, root = search.best, search.subject.root
    if isinstance(root, nn.Module):
        for hook in chain.from_iterable(vars(root)[table].values() for table in _TABLES):
            says = (
                f"The hook `{_name(hook)}` of the module is not part of the graph, which is traced from forward alone"
            )
            run.add("FX233", _registered(root) or search.root_class(), says)
            break
        owner = next(each for each in type(root).__mro__ if "__call__" in vars(each))
        # A `__call__` patched onto torch's class belongs to no root in particular.
        code = None if owner is nn.Module else getattr(owner.__call__, "__code__", None)
        if code is not None and not is_hidden(code.co_filename):
            head = head_of(code)
            place = Place(head, None, None, (head,)) if head else search.root_class()
            says = "`__call__` of the class is not part of the graph, which is traced from forward alone"
            run.add("FX233", place, says)
    for module, site in run.tracer.hooked.items():
        hook = next(iter((*module._backward_hooks.values(), *module._backward_pre_hooks.values())))
        path = run.tracer.path_of_module(module)
        says = f"The backward hook `{_name(hook)}` of `{path}`, which is traced into, is not part of the graph"
        detail = "Make it a leaf module, which keeps its hooks"
        run.add("FX233", _registered(root, path) or run.place_at(site), says, detail=detail)
    calls = {str(node.target): node for node in run.nodes if node.op == "call_module"} if run.notes.hooks else {}
    for target, node in calls.items():
        holder, path = run.tracer.holder(target)
        for place, module in run.notes.hooks.values():
            if holder.get_submodule(path) is module:
                says = f"`{place.text}` runs once, while tracing, and the graph calls `{target}` without the hook"
                run.add("FX233", place, says, detail="Register it in `__init__`", node=node.name)


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _registered(root: nn.Module, path: str = "") -> Place | None:
    """The call in the root's constructor that registers a hook on it or on the submodule at ``path``."""
    code = getattr(type(root).__init__, "__code__", None)
    if code is None or is_hidden(code.co_filename):
        return None
    owner = f"self.{path}" if path else "self"
    tree = function_tree(code)
    for node in () if tree is None else ast.walk(tree):
        name = called_name(node)
        given = isinstance(node, ast.Call) and node.args and getattr(node.args[0], "id", None) == owner
        if name in {f"{owner}.{each}" for each in _REGISTER} or (
            given and name.endswith(("spectral_norm", "weight_norm"))
        ):
            span = span_of(node, code.co_filename)
            return Place(span, node, None, (span,))
    return None


def copied(run: Run, probe: Probe, value: Any) -> None:
    """Collects copies of traced values, for `other_graphs`."""
    if any(isinstance(leaf, Proxy) for leaf in leaves_once(value)):
        run.notes.copies[probe.span] = run.place_of_probe(probe)


def other_graphs(search: Search) -> None:
    """FX234: an operation on a value from another graph. The generated code lacks its name."""
    run = search.best
    for node in run.nodes:
        for value in node.all_input_nodes:
            if value.graph is not run.graph:
                places: list[Place | None] = [*run.notes.copies.values()] or [
                    run.place_of_node(node) or run.place_of_node(value)
                ]
                for place in places:
                    run.add("FX234", place, node=node.name)
                return


def wraps_without_effect(search: Search) -> None:
    """FX229: a function that is wrapped in one module but called by its name in another."""
    run = search.best
    wrapped: dict[int, str] = {}
    for registry in (wrapping._wrapped_fns_to_patch, torch_side.foreign_wrapped_functions()):
        for (_, name), namespace in registry.items():
            function = namespace.get(name)
            code = getattr(getattr(function, wrapping._MARK, function), "__code__", None)
            if code is not None:
                home = namespace.get("__name__", "another module")
                wrapped[id(code)] = f"`{name}` is wrapped in {home}; call torch.fx.wrap in this module too"
    if not wrapped:
        return
    original = search.subject.instrumentation.original
    for node in run.nodes:
        site = node._site
        while site is not None and site[2] is not None:
            note = wrapped.get(id(original.get(site[0], site[0])))
            if note is not None:
                run.add("FX229", run.place_at(site[2]), detail=note, node=node.name)
            site = site[2]


AT_PROBES = {"return": returned, "hook": hooked, "copy": copied}
LOOKERS: Lookers = {ast.Return: [_look_return], ast.Call: [_look_call]}
ON_GRAPH = (threads, wraps_without_effect, lost_hooks, other_graphs)
LAST = (inputs_fit, concrete_names)
