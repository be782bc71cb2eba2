"""Models that set the mode of layers (train or eval) themselves, which is lost in a graph."""

from __future__ import annotations

import ast
import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.modules.instancenorm import _InstanceNorm

from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.reach import names_in
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.subject import has_own_modes
from fxlib.diagnosis.engine.tracers import NotingTracer
from fxlib.diagnosis.engine.trees import head_of
from fxlib.ir.modules import hollow_copy
from fxlib.ir.node import Node
from fxlib.ir.span import is_hidden

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "put", "who_sets"]

_SETTERS = ("train", "eval")
_Layers = Mapping[Node, nn.Module]
"""The layers of a graph that depend on the mode, by their first calls."""
_Lost = tuple[Place | None, str, Node]
"""The place where a model sets the mode of a layer, the call that does it, and the call of the layer."""


def _look_call(node: ast.Call, found: Found) -> None:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SETTERS:
        found.append(("mode", node.func.value))


def _look_assign(node: ast.Assign, found: Found) -> None:
    targets = [each for each in node.targets if isinstance(each, ast.Attribute) and each.attr == "training"]
    found.extend(("mode", each.value) for each in targets)


def set_mode(run: Run, probe: Probe, value: Any) -> None:
    """Collects modules whose mode forward sets, for `in_forward`."""
    if isinstance(value, nn.Module):
        attribute = probe.node.parent
        call = attribute.parent if attribute.attr in _SETTERS else attribute
        place = run.place_of_probe(probe).widened(call)
        run.notes.modes.append((place, value, len(run.nodes)))


def in_forward(search: Search) -> None:
    """FX237: forward sets a layer to another mode than its model's; a graph does not."""
    run, root, snapshot = search.best, search.subject.root, search.subject.snapshot
    if not run.notes.modes or not run.complete or not isinstance(root, nn.Module):
        return
    modes = [(module, module.training) for module in root.modules()]
    for mode in (True, False):
        try:
            snapshot.restore()
            for module, _ in modes:
                module.training = mode
            other = search.once_more(watched=_noting)
        finally:
            for module, before in modes:
                module.training = before
            snapshot.restore()
        if other is not None:
            assert isinstance(other.tracer, NotingTracer)
            calls = [node for node, was in other.tracer.called.items() if was != mode]
            changed = [node for node in calls if _has_modes(other.module(node))]
            _report(run, mode, [(_set_at(other, node) or other.place_of_node(node), "", node) for node in changed])


@contextlib.contextmanager
def _noting(run: Run) -> Iterator[None]:
    run.tracer.__class__ = NotingTracer
    run.tracer.called = {}  # type: ignore[attr-defined]
    yield


def _set_at(run: Run, node: Node) -> Place | None:
    """The place where forward last set a layer's mode before its call."""
    layer = run.module(node)
    index = run.nodes.index(node)
    for place, module, before in reversed(run.notes.modes):
        if before <= index and layer in set(module.modules()):
            return place
    return None


def by_its_own(search: Search) -> None:
    """FX237: a class overrides `train` or `eval`; the graph has only torch's."""
    run, root = search.best, search.subject.root
    if not run.complete or not search.subject.sets_own_modes:
        return
    layers = _layers(run)
    if not layers:
        return
    try:
        copy = hollow_copy(root)
        twins = dict(zip(root.modules(), copy.modules(), strict=True))
    except Exception:
        return  # models that cannot be copied are skipped
    for mode in (True, False):
        if not put(copy, mode):
            continue
        found: list[_Lost] = []
        wanted = {node: twins[layer].training for node, layer in layers.items() if layer in twins}
        for node, eager in wanted.items():
            # In a graph, only the layer itself is asked for its mode.
            if eager == mode or not put(twins[layers[node]], mode) or twins[layers[node]].training == eager:
                continue
            owner = _who_sets(root, str(node.target), mode, eager, twins)
            name = f"`{_SETTERS[not mode]}` of `{type(owner).__name__}`"
            found.append((_train_of(owner, mode) or run.place_of_node(node), name, node))
        _report(run, mode, found)


def _report(run: Run, mode: bool, found: list[_Lost]) -> None:
    """Report once for each place, for any number of layers."""
    kept, taken = ("eval", "training") if mode else ("training", "eval")
    for place, name in dict.fromkeys((place, name) for place, name, _ in found):
        nodes = [node for *at, node in found if at == [place, name]]
        layers = f"`{nodes[0].target}`" + (f" and {len(nodes) - 1} more" if nodes[1:] else "")
        it = name or ("forward" if place is None else f"`{place.text}`")
        says = f"{it} keeps {layers} in {kept} mode, but `{_SETTERS[not mode]}()` of the graph means {taken} mode"
        run.add("FX237", place, says, node=nodes[0].name)


def _layers(run: Run) -> _Layers:
    found: dict[nn.Module, Node] = {}
    for node in run.nodes:
        layer = run.module(node) if node.op == "call_module" else None
        if layer is not None and layer not in found and _has_modes(layer):
            found[layer] = node
    return {node: layer for layer, node in found.items()}


def _has_modes(layer: nn.Module) -> bool:
    """Whether a layer depends on the mode."""
    for each in layer.modules():
        forward = getattr(getattr(type(each), "forward", None), "__code__", None)
        reads = isinstance(each, _InstanceNorm) or (forward is not None and "training" in names_in(forward))
        idle = 0 in (getattr(each, "p", None), getattr(each, "dropout", None)) or not getattr(
            each, "track_running_stats", True
        )
        if reads and not idle:
            return True
    return False


def _who_sets(root: nn.Module, target: str, mode: bool, eager: bool, twins: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """The innermost module around a layer whose own `train` or `eval` gives the layer the mode that it has in eager."""
    layer = twins[root.get_submodule(target)]
    for owner in reversed([*_around(root, target)]):
        layer.training = eager
        if has_own_modes(owner) and put(twins[owner], mode) and layer.training == eager:
            return owner
    return root


def _around(root: nn.Module, target: str) -> Iterator[nn.Module]:
    parts = target.split(".")
    yield from (root.get_submodule(".".join(parts[:depth])) for depth in range(len(parts)))


def who_sets(root: nn.Module, target: str, mode: bool) -> tuple[nn.Module, Place | None]:
    """The innermost module around a part that has a `train` or `eval` of its own, and where that is."""
    owner = next((each for each in reversed([*_around(root, target)]) if has_own_modes(each)), root)
    return owner, _train_of(owner, mode)


def put(module: nn.Module, mode: bool) -> bool:
    """Set the mode of a module by its own method; False if that raises."""
    quiet = contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings()
    try:
        with quiet[0], quiet[1]:
            warnings.simplefilter("ignore")
            module.train() if mode else module.eval()
    except (Exception, SystemExit):
        return False
    return True


def _train_of(owner: nn.Module, mode: bool) -> Place | None:
    """The head of the `train` or `eval` that a user's class defines."""
    for name in dict.fromkeys((_SETTERS[not mode], *_SETTERS)):
        function = vars(owner).get(name, getattr(type(owner), name))
        code = getattr(function, "__code__", None)
        if function is not getattr(nn.Module, name) and code is not None:
            head = None if is_hidden(code.co_filename) or is_installed(code.co_filename) else head_of(code)
            return None if head is None else Place(head, None, None, (head,))
    return None


AT_PROBES = {"mode": set_mode}
LOOKERS: Lookers = {ast.Call: [_look_call], ast.Assign: [_look_assign]}
LAST = (in_forward, by_its_own)
