"""What a class's own `train` and `eval` set beside the modes of layers: flags that forward reads, and which parameters
need gradients. A graph is of a class that has neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import nn

from fxlib.diagnosis.detectors.comparisons import difference, signature
from fxlib.diagnosis.detectors.modes import put, who_sets
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.reach import names_in
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.ir.leaves import storages
from fxlib.ir.modules import hollow_copy
from fxlib.ir.node import Node
from fxlib.ir.objects import attribute
from fxlib.ir.writes import Writes

__all__ = ["LAST"]

_PLAIN = (bool, int, float, str, type(None))


class _Set(NamedTuple):
    """An attribute that `train` or `eval` has set."""

    module: nn.Module
    name: str
    value: Any


def set_by_its_own(search: Search) -> None:
    """FX207 and FX237: `train` or `eval` of a class sets what forward reads, or which parameters need gradients."""
    run, root = search.best, search.subject.root
    if not run.complete or not search.subject.sets_own_modes:
        return
    read = {name for function in search.subject.instrumentation.functions for name in names_in(function.__code__)}
    reported: set[tuple[type, str]] = set()
    told = False
    # In its own mode last: a model that was never put into one may be in neither state.
    for mode in (not root.training, root.training):
        try:
            copy = hollow_copy(root)
        except Exception:
            return  # what cannot be copied is not tried
        twins = dict(zip(root.modules(), copy.modules(), strict=True))
        weights = dict(copy.named_parameters())
        held = storages([*weights.values()])
        written: list[str] = []
        with Writes(weights.items(), written.append):
            if not put(copy, mode):
                continue
        merges = bool(written) or storages([*copy.parameters()]) != held
        told = told or _gradients(run, root, weights, mode)
        flags = [each for each in _set(twins) if each.name in read and (type(each.module), each.name) not in reported]
        if flags:
            reported |= _flags(search, flags, {module: twin.training for module, twin in twins.items()}, mode, merges)
    search.subject.snapshot.restore()


def _set(twins: Mapping[nn.Module, nn.Module]) -> Iterator[_Set]:
    for module, twin in twins.items():
        for name, value in vars(twin).items():
            before = attribute(module, name)
            if name != "training" and type(value) in _PLAIN and type(before) in _PLAIN and value != before:
                yield _Set(module, name, value)


def _flags(
    search: Search, flags: list[_Set], modes: Mapping[nn.Module, bool], mode: bool, merges: bool
) -> set[tuple[type, str]]:
    """Report those without which the graph of this mode is another one. Where weights change with them, the graph has
    its weights and its branch from the same moment, and goes wrong only when it shares them with the model."""
    run = search.best
    # What reads of `training` do to the graph is a finding of its own.
    plain, whole = _traced(search, modes, []), _traced(search, modes, flags)
    if plain is None or whole is None or signature(plain) == signature(whole):
        return set()
    if not run.notes.training and signature(plain) != signature(run):
        return set()  # each trace gives another graph, for another reason
    found: set[tuple[type, str]] = set()
    for name in dict.fromkeys(each.name for each in flags):
        alike = [each for each in flags if each.name == name]
        rest = [each for each in flags if each.name != name]
        if rest and (other := _traced(search, modes, rest)) is not None and signature(other) == signature(whole):
            continue
        kind = type(alike[0].module)
        place = _read(search, alike[0]) or search.root_class()
        it = f"`{place.text}`" if place is not None and place.node is not None else f"`{name}`"
        says = (
            f"{it} is read only while tracing: `train()` and `eval()` of `{kind.__name__}` set it"
            f"{' and change weights' if merges else ''}, but those of the graph do not"
        )
        here, there = (zip(each.nodes, signature(each), strict=True) for each in (plain, whole))
        note = difference(run, "training" if mode else "eval", here, there)
        run.add("FX207", place, says, related=(note,), severity="info" if merges else None)
        found |= {(type(each.module), name) for each in alike}
    return found


def _traced(search: Search, modes: Mapping[nn.Module, bool], flags: list[_Set]) -> Run | None:
    """A run in these modes with these attributes."""
    snapshot = search.subject.snapshot
    before = {module: module.training for module in modes}
    snapshot.restore()
    try:
        for module, training in modes.items():
            module.training = training
        for module, name, value in flags:
            vars(module)[name] = value
        return search.once_more()
    finally:
        for module, training in before.items():
            module.training = training
        snapshot.restore()


def _read(search: Search, flag: _Set) -> Place | None:
    """Where forward reads an attribute: in a function of the module's own class, or else in another's."""
    instrumentation = search.subject.instrumentation
    holders = {base.__qualname__ for base in type(flag.module).__mro__}
    functions = sorted(instrumentation.functions, key=lambda each: each.__qualname__.rpartition(".")[0] not in holders)
    for function in functions:
        code = instrumentation.own_code(function)
        tree = trees.function_tree(code)
        for node in () if tree is None else ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == flag.name and isinstance(node.ctx, ast.Load):
                span = trees.span_of(node, code.co_filename)
                return Place(span, node, None, (span,))
    return None


def _gradients(run: Run, root: nn.Module, after: Mapping[str, nn.Parameter], mode: bool) -> bool:
    """Report parameters of the graph that need gradients, or need none, since `train` or `eval`. True where it has."""
    held = [node for node in run.nodes if node.op in ("get_attr", "call_module")]
    changed = [
        (name, after[name].requires_grad, node)
        for name, parameter in root.named_parameters()
        if after[name].requires_grad != parameter.requires_grad and (node := _taking(name, held)) is not None
    ]
    if not changed:
        return False
    name, needs, node = changed[0]
    owner, place = who_sets(root, name, mode)
    setter = "train" if mode else "eval"
    which = f"`{name}`" + (f" and {len(changed) - 1} more" if changed[1:] else "")
    says = (
        f"`{setter}` of `{type(owner).__name__}` makes {which} need {'' if needs else 'no '}gradients, but "
        f"`{setter}()` of the graph does not"
    )
    advice = f"Set `requires_grad` again after `{setter}()` of the graph"
    run.add("FX237", place or run.place_of_node(node), says, detail=advice, node=node.name)
    return True


def _taking(parameter: str, held: list[Node]) -> Node | None:
    """The first node that computes with a parameter."""
    return next((node for node in held if f"{parameter}.".startswith(f"{node.target}.")), None)


LAST = (set_by_its_own,)
