"""FX235 and FX241: what forward computes from parameters or buffers alone, which a graph keeps from the trace."""

from __future__ import annotations

import ast
import functools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.detectors.module_state import changed_by
from fxlib.diagnosis.detectors.moments import differ
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.reach import modules_of
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of
from fxlib.ir.leaves import storages, tensors_in

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]

_SECONDS = 1.0
_METHODS, _FUNCTIONS = frozenset({"item", "tolist", "numpy"}), frozenset({"float", "int", "bool"})


class Buffer(NamedTuple):
    """A buffer of a module."""

    module: nn.Module
    name: str


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    if isinstance(function, ast.Attribute):
        reads = function.attr in _METHODS and not node.args
    else:
        reads = getattr(function, "id", None) in _FUNCTIONS and len(node.args) == 1
    if reads:
        found.append(("number", node))


def _look_test(node: Any, found: Found) -> None:
    test = node.test
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    # The mode has a rule of its own.
    if isinstance(test, (ast.Attribute, ast.Compare, ast.Subscript)) and getattr(test, "attr", "") != "training":
        found.append(("number", test))


def read(run: Run, probe: Probe, value: Any) -> None:
    """Collects such reads, for `numbers`: what a call gives Python, and tensors that are conditions."""
    root = run.subject.root
    if not isinstance(root, nn.Module) or isinstance(value, Proxy):
        return
    if not isinstance(probe.node, ast.Call) and not isinstance(value, torch.Tensor):
        return
    buffers = {id(each): buffer for buffer, each in _buffers(root)}
    if not buffers:
        return
    frame = users_frame()
    with run.aside():
        parts = (constant(each, frame) for each in ast.walk(probe.node) if isinstance(each, ast.Attribute))
        found = [buffers[id(each)] for each in parts if id(each) in buffers]
    if found:
        run.notes.numbers.setdefault(probe.span, (run.place_of_probe(probe), found))


def numbers(search: Search) -> None:
    """FX241: with another number the graph differs."""
    run, end = search.best, time.thread_time() + _SECONDS
    read, severity_of = run.notes.numbers, _severities(search)
    for span, (place, found) in read.items():
        severity = severity_of(found, are_numbers=True)
        if severity is None or any(other is not span and within(span, other) for other in read):
            continue  # the whole is reported
        if not run.complete or time.thread_time() > end:
            return
        search.subject.snapshot.restore()
        other = search.once_more(flipped=frozenset({span}), other=_another)
        search.subject.snapshot.restore()
        if differ(run, other):
            run.add(
                "FX241",
                place,
                f"`{text_of(place.node)}` is read once, while tracing, so the graph keeps this value",
                severity=severity,
            )


def _another(value: Any) -> Any:
    """Another number of the same kind."""
    if isinstance(value, (bool, torch.Tensor)):
        return not bool(value)
    if isinstance(value, list):
        return [*map(_another, value)]
    return value + 1


def _buffers(root: Any) -> Iterator[tuple[Buffer, torch.Tensor]]:
    for _, module, _ in modules_of(root) if isinstance(root, nn.Module) else ():
        yield from ((Buffer(module, name), each) for name, each in module._buffers.items() if each is not None)


def _severities(search: Search) -> Callable[..., str | None]:
    """How much it matters that a graph keeps values of buffers: not at all if only the constructor sets them. An index
    or a mask belongs to the structure of a model and is not loaded with another value, as a number may be."""

    @functools.cache
    def changed(kind: Any, name: str) -> str | None:
        return changed_by(search.subject.instrumentation, kind, name)

    def severity(buffers: Iterable[Buffer], are_numbers: bool = False) -> str | None:
        found = None
        for module, name in buffers:
            kind: Any = type(module)
            by = changed(kind, name)
            if by == "forward":
                return "warning"
            tensor = module._buffers[name]
            varies = are_numbers or (tensor is not None and (tensor.is_floating_point() or tensor.is_complex()))
            if by is not None or (varies and name not in module._non_persistent_buffers_set):
                found = "info"
        return found

    return severity


class _Sources(TorchDispatchMode):
    """While it is active, ``of`` maps the memory of each tensor to the buffers that it was computed from, and ``made``
    a tensor to the place of its operation."""

    def __init__(self, run: Run, buffers: Iterable[tuple[Buffer, torch.Tensor]]) -> None:
        super().__init__()
        self.run = run
        self.of: dict[Hashable, dict[Buffer, None]] = {}
        self.made: dict[Hashable, Place | None] = {}
        for buffer, tensor in buffers:
            for key in storages(tensor):
                self.of.setdefault(key, {})[buffer] = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        result = func(*args, **given)
        name = func._schema.name.rpartition("::")[2]
        if self.run.quiet or name.endswith("_like") or name.startswith("new_"):
            return result  # of the same form, but not with these values
        read = {each: None for key in storages((args, given)) for each in self.of.get(key, ())}
        if read:
            for key in storages(result):
                self.of.setdefault(key, {}).update(read)
            self.made.update(dict.fromkeys(map(_view, tensors_in(result)), self.run.place()))
        return result


def _view(tensor: torch.Tensor) -> Hashable:
    """A key for what it shows of its memory: torch may give the caller another object for the same view."""
    strided = tensor.layout is torch.strided
    return (*storages(tensor), tensor.shape, (tensor.storage_offset(), tensor.stride()) if strided else None)


def _kept(run: Run) -> Iterator[tuple[Any, torch.Tensor]]:
    """The constants that the trace has added, with the nodes that read them."""
    names = {name: value for value, name in run.tracer.tensor_attrs.items() if isinstance(value, torch.Tensor)}
    for node in run.nodes:
        value = names.get(str(node.target)) if node.op == "get_attr" else None
        if value is not None:
            yield node, value


def of_parameters(search: Search) -> None:
    """FX235: a constant that was computed from parameters."""
    run = search.best
    for node, value in _kept(run):
        if value.grad_fn is not None:
            run.add("FX235", run.place_of_node(node), node=node.name)


def of_buffers(search: Search) -> None:
    """FX241: a constant that was computed from buffers which may change."""
    run, buffers = search.best, [*_buffers(search.subject.root)]
    if not run.complete or not buffers or all(value.grad_fn is not None for _, value in _kept(run)):
        return
    seen: list[_Sources] = []

    def watched(another: Run) -> _Sources:
        seen.append(_Sources(another, buffers))
        return seen[-1]

    search.subject.snapshot.restore()
    again = search.once_more(watched)
    search.subject.snapshot.restore()
    if again is None:
        return
    (sources,), severity_of = seen, _severities(search)
    for node, value in _kept(again):
        found = {each: None for key in storages(value) for each in sources.of.get(key, ())}
        severity = None if value.grad_fn is not None else severity_of(found)
        if severity is None:
            continue
        place = sources.made.get(_view(value)) or again.place_of_node(node)
        names = " and ".join(f"`{name}`" for name in dict.fromkeys(each.name for each in found))
        text = "This value" if place is None else f"`{place.text}`"
        run.add(
            "FX241",
            place,
            f"{text} is computed from {names} once, while tracing, so the graph keeps this value",
            severity=severity,
            detail="Compute it in a wrapped function that also gets a traced value, or trace with "
            "`proxy_buffer_attributes = True`",
            node=node.name,
        )


AT_PROBES = {"number": read}
LOOKERS: Lookers = {ast.Call: [_look_call], ast.If: [_look_test], ast.While: [_look_test], ast.IfExp: [_look_test]}
ON_GRAPH = (of_parameters,)
LAST = (of_buffers, numbers)
