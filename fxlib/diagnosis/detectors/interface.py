"""The edges of the graph: concrete arguments, example inputs, the type of the output, threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.capture.root_arguments import PHBase
from fxlib.diagnosis.engine import place as places
from fxlib.diagnosis.engine import source
from fxlib.diagnosis.engine.inputs import signature_of
from fxlib.diagnosis.engine.instrument import Probe
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.session import Session
from fxlib.interop import torch_side

__all__ = ["AFTER", "AT_PROBES"]


def _definition(session: Session) -> Place | None:
    """The line of forward's ``def``."""
    root = session.root
    function = type(root).forward if isinstance(root, nn.Module) else root
    code: Any = getattr(function, "__code__", None)
    code = session.instrumentation.original.get(code, code)
    tree = source.function_tree(code) if code is not None else None
    if tree is None:
        return None
    span = source.span_of(tree, code.co_filename)
    head = span._replace(line=tree.lineno, end_line=tree.lineno, end_column=tree.col_offset + len(f"def {tree.name}"))
    return Place(head, None, None, (head,))


def concrete_names(session: Session, state: Any, problem: str | None) -> None:
    """FX219 and FX220: names in ``concrete_args``."""
    concrete = session.concrete_args
    signature = signature_of(session.root)
    if not isinstance(concrete, Mapping) or signature is None:
        return
    for name, value in concrete.items():
        if name not in signature.parameters:
            session.add("FX219", _definition(session), f"there is no argument `{name}`", data={"argument": name})
        elif not isinstance(value, PHBase) and value is not None and not _nested(value):
            renamed = (
                [n for n in session.graph.nodes if n.op == "placeholder" and n.target.startswith(name + "_")]
                if session.graph is not None
                else []
            )
            if renamed:
                note = f"`{name}` is called `{renamed[0].target}` in the graph"
                session.add("FX220", _definition(session), note, node=renamed[0].name, data={"argument": name})


def _nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def inputs_fit(session: Session, state: Any, problem: str | None) -> None:
    """FX303: the example inputs do not fit the signature."""
    if problem is not None:
        session.add("FX303", _definition(session), problem)


def returned(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX223: the root returns a dict of a class of its own."""
    root = session.root
    function = type(root).forward if isinstance(root, nn.Module) else root
    code: Any = getattr(function, "__code__", None)
    own = session.instrumentation.original.get(code)
    if isinstance(value, Proxy) or not isinstance(value, dict) or type(value) is dict or probe.code is not own:
        return
    name = "OrderedDict" if type(value) is OrderedDict else type(value).__name__
    session.add("FX223", session.place_of_probe(probe), f"the graph returns a dict in place of the {name}")


def threads(session: Session, state: Any, problem: str | None) -> None:
    """FX228: a node was recorded by code that the root's forward did not call."""
    elsewhere = session.tracer.elsewhere
    if session.graph is None or not elsewhere:
        return
    original = session.instrumentation.original
    for node in session.graph.nodes:
        name = elsewhere.get(node._site)
        if name is not None:
            place = places.place_of(node._site, original)
            session.add("FX228", place, f"it ran in the thread {name}", node=node.name)
            break


def wraps_without_effect(session: Session, state: Any, problem: str | None) -> None:
    """FX229: a function that is wrapped in one module, called by its name in another."""
    if session.graph is None:
        return
    wrapped: dict[int, str] = {}
    for registry in (wrapping._wrapped_fns_to_patch, torch_side.foreign_wrapped_functions()):
        for (_, name), namespace in registry.items():
            function = namespace.get(name)
            code = getattr(getattr(function, wrapping._MARK, function), "__code__", None)
            if code is not None:
                wrapped[id(code)] = f"`{name}` is wrapped in {namespace.get('__name__', 'another module')}"
    if not wrapped:
        return
    original = session.instrumentation.original
    for node in session.graph.nodes:
        site = node._site
        while site is not None and site[2] is not None:
            note = wrapped.get(id(original.get(site[0], site[0])))
            if note is not None:
                place = places.place_of(site[2], original)
                session.add("FX229", place, f"{note}, not in the module of this call", node=node.name)
            site = site[2]


AT_PROBES = {"return": returned}
AFTER = (inputs_fit, concrete_names, threads, wraps_without_effect)
ON_GRAPH = (threads, wraps_without_effect)
