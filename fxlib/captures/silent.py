"""What torch.export does silently: state that it drops, momentary values that it freezes, inputs that it writes to."""

from __future__ import annotations

import ast
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxlib.captures import torch_side
from fxlib.captures.interface import forwards
from fxlib.captures.isolation import copied, restored
from fxlib.captures.places import expression_at, file_tree, forward_of, frames_of, is_users, shown
from fxlib.captures.verdict import holds_for, sentence
from fxlib.diagnosis.engine.forms import MOMENTS
from fxlib.diagnosis.engine.trees import at_span, span_of
from fxlib.diagnosis.report import Finding
from fxlib.diagnosis.rules import RULES
from fxlib.ir.objects import home_of, is_a, items_of
from fxlib.ir.span import Span

__all__ = ["silent"]

_SLOW = 0.5  # seconds for one call; the results of slower models are not compared
_CHANGING = frozenset(
    {"append", "extend", "insert", "update", "setdefault", "add", "pop", "clear", "remove", "popleft"}
)
_ITEMS, _DEPTH = 100, 3  # of containers whose contents are compared
_MOMENT = frozenset({"random", "time", "datetime", "uuid", "secrets"})


def silent(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], program: Any, of_fx: Iterable[Finding] = ()
) -> list[Finding]:
    """The findings about a model that was exported. Values are compared by running both twice, unless the model has no
    data or is slow. ``of_fx``: those of torch.fx, which find state outside of the module's attributes, too."""
    found: list[Finding] = []
    without_data = _without_data(module, args, kwargs)
    changed: list[str] = []
    seconds = 0.0
    if not without_data or any(_written(tree) for _, _, tree in forwards(module)):
        changed, seconds = _changed(module, args, kwargs)
    differs = None
    if seconds < _SLOW and not without_data:
        differs = _differs(module, args, kwargs, program)
    kept = [*_kept(of_fx)]
    # One finding for both captures: torch.fx's has the attribute alone, not the item of it that is written.
    begins = {span[:3]: span for span, code in kept if code == "FX551"}
    for name in changed:
        for span in _writes(module, name):
            span = begins.get(span[:3], span)
            message = (
                f"The exported program does not update `{name}`, so its second call differs from the model's."
                if differs
                else sentence("FX551", span)
            )
            found.append(_finding("FX551", span, message, "warning" if differs else "hint"))
    if differs and not changed:
        for span in _moments(module):
            found.append(_finding("FX552", span, sentence("FX552", span)))
    if differs is not False:
        known = {each.span for each in found}
        for span, code in kept:
            if span not in known:
                found.append(_finding(code, span, sentence(code, span), "warning" if differs else "hint"))
    found += [
        _finding("FX551", each.span, "The exported program does not change which parameters need gradients.", "warning")
        for each in of_fx
        if each.code == "FX240"
    ]
    found += _constants(module, program)
    found += _written_inputs(program)
    return found


def _kept(of_fx: Iterable[Finding]) -> Iterator[tuple[Span, str]]:
    """What runs once in an export as in a trace: changes of Python's state, and readings of a moment. torch's own
    random numbers are drawn by the program."""
    for each in of_fx:
        if each.span is not None and each.code == "FX208":
            yield each.span, "FX551"
        elif each.span is not None and each.code == "FX206":
            tree = file_tree(each.span.file)
            node = at_span(tree, each.span) if tree is not None else None
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in MOMENTS:
                yield each.span, "FX552"


def _finding(code: str, span: Span | None, message: str, severity: str | None = None) -> Finding:
    path = () if span is None else (span,)
    data = {"captures": holds_for("export", code)}
    return Finding(code, severity or RULES[code].severity, message, span, call_path=path, data=data)


# ---- comparing


def _without_data(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> bool:
    tensors = [*module.parameters(), *module.buffers(), *pytree.tree_leaves((args, kwargs))]
    return any(isinstance(each, torch.Tensor) and each.device.type == "meta" for each in tensors)


def _changed(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[list[str], float]:
    """Attributes, other than buffers, that a call changes; and the time of the call."""
    with restored(module), torch_side.quiet():
        before = _state(module)
        start = time.perf_counter()
        try:
            module(*copied(args), **copied(kwargs))
        except Exception:
            return [], float("inf")
        seconds = time.perf_counter() - start
        after = _state(module)
    names = [name for name in after if name not in before or before[name] != after[name]]
    return list(dict.fromkeys(names)), seconds


def _state(module: torch.nn.Module) -> dict[str, Any]:
    """Plain attributes of all submodules by name, in a comparable form."""
    state: dict[str, Any] = {}
    for each in module.modules():
        if forward_of(each) is None:
            continue
        for name, value in vars(each).items():
            if name.startswith("_") and name in vars(torch.nn.Module()):
                continue
            comparable = _comparable(value)
            if comparable is not None:
                state[f"self.{name}"] = comparable
    return state


def _comparable(value: Any, depth: int = _DEPTH) -> tuple[Any, ...] | None:
    """A value that is equal as long as an attribute is unchanged: tensors by identity, containers by their contents.
    None for other objects."""
    if is_a(value, (bool, int, float, str, type(None))):
        return type(value), value
    if is_a(value, torch.Tensor):
        return torch.Tensor, id(value)
    kind = next((each for each in (list, dict, set, tuple) if is_a(value, each)), None)
    if kind is None:
        return None
    count = kind.__len__(value)
    items = () if not depth or count > _ITEMS or kind is set else items_of(value)
    return type(value), count, [(str(key), _comparable(each, depth - 1)) for key, each in items]


def _differs(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], program: Any) -> bool:
    """Whether two calls of the model and two of the program differ, with the same seeds of torch."""
    try:
        with restored(module):
            eager = _twice(module, args, kwargs)
        with restored(module):  # the program has the model's buffers
            exported = _twice(program.module(), args, kwargs)
        return not all(map(_same, eager, exported))
    except Exception:
        return False


def _twice(call: Callable, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    results: list[Any] = []
    with torch_side.quiet(), torch.no_grad():
        for seed in (0, 1):
            torch.manual_seed(seed)
            value = call(*copied(args), **copied(kwargs))
            results += [each.clone() if isinstance(each, torch.Tensor) else each for each in pytree.tree_leaves(value)]
    return results


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.layout is not torch.strided:
            return one.shape == other.shape
        return torch.allclose(one.double(), other.double(), 1e-3, 1e-5, equal_nan=True) if one.numel() else True
    return not isinstance(one, (bool, int, float)) or one == other


# ---- places


def _writes(module: torch.nn.Module, name: str) -> Iterator[Span]:
    """The places where a forward assigns an attribute, or changes its contents."""
    for _, code, tree in forwards(module):
        yield from (span_of(node, code.co_filename) for node, owner in _written(tree) if owner == name)


def _written(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The target of an assignment or mutating method call, and the attribute that it belongs to."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            held = node.func.value
            if node.func.attr in _CHANGING and isinstance(held, ast.Attribute):
                yield node, ast.unparse(held)
        for target in targets:
            owner = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(owner, ast.Attribute):
                yield target, ast.unparse(owner)


def _moments(module: torch.nn.Module) -> Iterator[Span]:
    """Calls of a clock, or of a random generator other than torch's."""
    for each, code, tree in forwards(module):
        function = forward_of(each)
        scope = function.__globals__ if function is not None else {}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            root, *rest = ast.unparse(node.func).split("(")[0].split(".")
            owner = scope.get(root)
            known = owner.__name__ if is_a(owner, types.ModuleType) else home_of(owner)
            if known.split(".")[0] in _MOMENT or (known.startswith("numpy") and "random" in [*rest, known]):
                yield span_of(node, code.co_filename)


def _constants(module: torch.nn.Module, program: Any) -> Iterator[Finding]:
    """Tensors of the module that are not buffers."""
    plain = {
        name
        for each in module.modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
    }
    kept = {name.split(".")[-1] for name in getattr(program, "constants", {})}
    for _, code, tree in forwards(module):
        for name in sorted(plain & kept):
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr == name:
                    span = span_of(node, code.co_filename)
                    yield _finding("FX553", span, sentence("FX553", span))
                    break


def _written_inputs(program: Any) -> Iterator[Finding]:
    given = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        named = (each for each in _arguments_written(node) if getattr(each, "name", None) in given)
        written = next(named, None)
        if written is None:
            continue
        frames = [frame for frame in frames_of(node.meta.get("stack_trace") or "") if is_users(frame.file)]
        if frames:
            span = expression_at(frames[-1])
            text = f"`{shown(span)}` writes into the input `{written.name}`. The exported program does the same."
            yield _finding("FX554", span, text)


def _arguments_written(node: Any) -> Iterator[Any]:
    """The arguments that an operator writes into, by its schema."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    for index, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
