"""The edges of the graph: concrete arguments, example inputs, the type of the output, threads."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.capture.root_arguments import PHBase
from fxlib.diagnosis.engine.inputs import signature_of
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.interop import torch_side

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]


def _look_return(node: ast.Return, found: Found) -> None:
    if node.value is not None:
        found.append(("return", node.value))


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
                says = f"`{name}` is named `{renamed[0].target}` in the graph, so passing it by keyword fails"
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


def wraps_without_effect(search: Search) -> None:
    """FX229: a function that is wrapped in one module, called by its name in another."""
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


AT_PROBES = {"return": returned}
LOOKERS: Lookers = {ast.Return: [_look_return]}
ON_GRAPH = (threads, wraps_without_effect)
LAST = (inputs_fit, concrete_names)
