"""Problems that the finished graph shows: unknown methods, mutation, devices, unused helpers."""

from __future__ import annotations

import ast
import dis
import inspect
import operator
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.engine.on_meta import runs_on_meta
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.reach import modules_of
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import text_of
from fxlib.diagnosis.engine.values import Unknown, show
from fxlib.diagnosis.engine.writes import MAYBE_VIEWS, writes_of
from fxlib.diagnosis.report import Mutation, Related
from fxlib.ir.node import Node
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta

__all__ = ["ON_GRAPH", "base_of", "writes"]

_Packet = torch._ops.OpOverloadPacket
_PLAIN = (str, int, float, bool, complex, list, tuple, dict, torch.Size, torch.dtype, torch.device)
_IN_PLACE = frozenset(
    getattr(operator, name)
    for name in dir(operator)
    if name.startswith("i")
    and name[1:]
    in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear)


_NO_SHAPE = "no fake impl"
"""In torch's error for an operator of the user's that runs, but of whose results it does not know the shapes."""


def _known(run: Run, node: Any) -> Any:
    return run.values.known.get(node, Unknown(False)) if isinstance(node, Node) else node


def misfits(search: Search) -> None:
    """Computes the values of all nodes; FX303 if torch rejects the example inputs."""
    run = search.best
    if not run.nodes:
        return
    with run.aside():
        run.values.upto(run.nodes[-1])
    given = any(not isinstance(value, Unknown) for value in run.values.inputs.values())
    misled = run.course.corrections is not None or any(each.loud or each.misleads for each in run.findings)
    for node, error in run.values.errors.items():
        if given and not misled and not _unknown_attribute(run, node):
            if getattr(node.target, "__module__", None) == "torch.autograd":
                continue  # requires_grad is not known here
            text = re.sub(r"^[\w.<>]+: (?=\w+Error: )", "", str(error).splitlines()[0])
            place = run.place_of_node(node)
            if _NO_SHAPE not in text and not runs_on_meta(search.subject):
                run.add("FX303", place, error=text, node=node.name, severity="warning")
            break


def _unknown_attribute(run: Run, node: Node) -> str | None:
    """The attribute or method of this node that its value does not have."""
    if node.op == "call_method":
        name = node.target
    elif node.op == "call_function" and node.target is getattr and len(node.args) == 2:
        name = node.args[1]
    else:
        return None
    if not node.args or not isinstance(name, str) or name.startswith("__"):
        return None
    value = _known(run, node.args[0])
    if isinstance(value, TensorMeta):
        return None if hasattr(torch.Tensor, name) else name
    if isinstance(value, Unknown):
        if not isinstance(node.args[0], Node) or node.args[0].op in ("placeholder", "get_attr"):
            return None
        if _is_tensor(run, node.args[0]):
            return None if hasattr(torch.Tensor, name) else name
        return None
    # The None default has a finding of its own.
    return None if value is None or hasattr(value, name) else name


def _is_tensor(run: Run, node: Node) -> bool:
    """Whether a result that is not known is a tensor: a layer says so in its signature, and an arithmetic result is a
    tensor or a number."""
    if node.op == "call_module":
        forward = getattr(type(run.module(node)), "forward", None)
        return getattr(forward, "__annotations__", {}).get("return") in (torch.Tensor, "Tensor", "torch.Tensor")
    return (
        node.op == "call_function"
        and getattr(node.target, "__module__", "") == "_operator"
        and (node.target is not operator.getitem)
    )


def unknown_methods(search: Search) -> None:
    """FX216 and FX217: methods and attributes that do not exist."""
    run = search.best
    for node in run.nodes:
        name = _unknown_attribute(run, node)
        if name is None and node.op == "call_method" and _untyped(run, node):
            if not any(hasattr(kind, str(node.target)) for kind in (torch.Tensor, *_PLAIN)):
                says = f"No tensor has `{node.target}`{_near(str(node.target), torch.Tensor)}"
                run.add("FX217", run.place_of_node(node), says, node=node.name, severity="info")
            continue
        if name is None:
            continue
        place = run.place_of_node(node)
        value = _known(run, node.args[0])
        tensor = isinstance(value, (TensorMeta, Unknown))
        what = "A tensor" if tensor else f"`{show(value)}`"
        if place is not None and run.catcher(place, AttributeError) is not None:
            run.add("FX216", place, detail=f"{what} has no `{name}`, so the graph fails when it runs", node=node.name)
        else:
            near = _near(name, torch.Tensor if tensor else type(value))
            says = f"{what} has no `{name}`{near}, so the graph fails when it runs"
            run.add("FX217", place, says, node=node.name)


def _untyped(run: Run, node: Node) -> bool:
    owner = node.args[0] if node.args else None
    if not isinstance(owner, Node) or not isinstance(_known(run, owner), Unknown):
        return False
    # The result of a user's class or function, or of a cut expression, may be any object.
    home = getattr(owner.target, "__module__", None) or "torch"
    known = home.partition(".")[0] in ("torch", "_operator", "builtins") and not isinstance(owner.target, type)
    return owner.op != "call_function" or known


def _near(name: str, kind: type) -> str:
    import difflib

    found = difflib.get_close_matches(name, [n for n in dir(kind) if not n.startswith("_")], 1, 0.8)
    return f" (did you mean `{found[0]}`?)" if found else ""


# What `constant[i] = x` and `constant += x` call where only `x` is traced.
_WRITING = re.compile(r"__(setitem|i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift))__")


def _mutates(node: Node) -> Any:
    """The argument that ``node`` writes into, or None."""
    if node.op == "call_method":
        target = str(node.target)
        plain = target.endswith("_") and not target.endswith("__") and hasattr(torch.Tensor, target)
        if plain or _WRITING.fullmatch(target):
            return node.args[0] if node.args else None
    elif node.op == "call_function":
        if node.target in _IN_PLACE or node.target is operator.setitem:
            return node.args[0] if node.args else None
        if node.kwargs.get("inplace") is True:
            return node.args[0] if node.args else node.kwargs.get("input")
        if node.kwargs.get("out") is not None:
            return node.kwargs["out"]
        name = getattr(node.target, "__name__", "")
        if name.endswith("_") and not name.endswith("__") and getattr(torch, name, None) is node.target:
            return node.args[0] if node.args else None
        return _written_by_schema(node)
    return None


def _written_by_schema(node: Node) -> Any:
    """The argument that an operator of ``torch.ops`` says it writes into, or None."""
    target: Any = node.target
    overloads = [getattr(target, name) for name in target.overloads()] if isinstance(target, _Packet) else [target]
    for overload in overloads:
        schema = getattr(overload, "_schema", None)
        for index, argument in enumerate(schema.arguments if schema is not None else ()):
            if argument.alias_info is not None and argument.alias_info.is_write:
                return node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
    return None


def _written(run: Run, node: Node) -> Any:
    """As `_mutates`, also for in-place modules."""
    written = _mutates(node)
    if written is None and node.op == "call_module" and node.args:
        written = node.args[0] if _works_in_place(run.module(node)) else None
    return written


def _works_in_place(module: Any) -> bool:
    # A module is slow to report a missing attribute.
    own = getattr(module, "__dict__", {})
    return own.get("inplace", getattr(type(module), "inplace", False)) is True


def base_of(run: Run, node: Any) -> Any:
    """The base of a chain of views and in-place results."""
    for _ in range(64):
        if not isinstance(node, Node) or not node.args:
            return node
        if (node.op == "call_method" and node.target in MAYBE_VIEWS) or (
            node.op == "call_function"
            and (
                node.target in (operator.getitem, torch.flatten, torch.transpose, torch.unsqueeze, torch.squeeze)
                or (node.target is getattr and node.args[1:] == ("data",))
            )
        ):
            node = node.args[0]
        elif (written := _written(run, node)) is not None:
            node = written
        else:
            return node
    return node


def writes(run: Run) -> Iterator[tuple[Node, Any, Node]]:
    """The nodes that write in place: each with what it writes to, and the node whose memory that is."""
    for node in run.nodes:
        written = _written(run, node)
        if written is not None and isinstance(base := base_of(run, written), Node):
            yield node, written, base


def mutation(search: Search) -> None:
    """FX222 and FX227: writes into constants, inputs, parameters and buffers. Every write is listed, even those into
    values that nothing else reads."""
    run = search.best
    found = run.notes.mutations
    lost = [each.span for each in run.findings if each.code == "FX210" and each.span is not None]
    for node, written, base in writes(run):
        if node.target == "requires_grad_" and base is not written:
            continue  # a view has a flag of its own
        span = node.span
        given = base.op in ("placeholder", "get_attr")
        value = _known(run, base)
        if not given or not isinstance(value, (TensorMeta, Unknown)):
            if not given:
                found.append(Mutation(span, node.name, f"the value `{base.name}`"))
            continue
        found.append(Mutation(span, node.name, f"`{base.target}`"))
        place = run.place_of_node(node)
        if place is not None and any(within(each, place.span) for each in lost):
            continue  # FX210 names this expression, part of which the graph does not do
        if base.op == "get_attr" and str(base.target).startswith("_tensor_constant"):
            run.add("FX222", place, node=node.name)
        else:
            what = "input" if base.op == "placeholder" else "parameter or buffer"
            says = f"This changes the {what} `{base.target}` in place"
            run.add("FX227", place, says, node=node.name, data={"target": str(base.target)})


def unused_helpers(search: Search) -> None:
    """FX224: a wrapped function that writes into its argument, and whose result nobody uses."""
    run = search.best
    for node in run.nodes:
        unused = node.op == "call_function" and not node.users and node.meta.get("is_wrapped")
        if unused and writes_of(node.target).tensors:
            run.add("FX224", run.place_of_node(node), node=node.name)


def devices(search: Search) -> None:
    """FX225: a device that was read from a real tensor or module."""
    run = search.best
    for node in run.nodes:
        baked = [value for value in (*node.args, *node.kwargs.values()) if isinstance(value, torch.device)]
        if not baked:
            continue
        place = run.place_of_node(node)
        if place is None or place.node is None:
            continue
        for inner in ast.walk(place.node):
            if isinstance(inner, ast.Attribute) and inner.attr == "device" and not _is_torch_device(inner):
                if _keeps(search, place, inner):
                    continue  # the module's own device, which moves with it
                device = "the device that it was traced on" if baked[0].type == "meta" else str(baked[0])
                says = f"`{text_of(inner)}` is read only while tracing, so the graph always uses {device}"
                run.add("FX225", place, says, node=node.name)
                break


def _keeps(search: Search, place: Place, node: ast.Attribute) -> bool:
    """Whether a device is a plain attribute that only the constructor of a user's module sets."""
    if not (isinstance(node.value, ast.Name) and node.value.id == "self") or place.site is None:
        return False
    instrumentation = search.subject.instrumentation
    code = instrumentation.original.get(place.site[0], place.site[0])
    held = [each for _, each, _ in modules_of(search.subject.root)]
    holders = [each for each in held if any(instrumentation.own_code(method) is code for method in _methods(each))]
    return bool(holders) and all(node.attr in vars(each) and not _sets(type(each), node.attr) for each in holders)


def _methods(module: Any) -> Iterator[FunctionType]:
    """The methods of its class and of the bases, reachable by `super()`."""
    for kind in type(module).__mro__:
        yield from (inspect.unwrap(each) for each in vars(kind).values() if isinstance(each, FunctionType))


def _sets(kind: type, name: str) -> bool:
    """Whether a method other than the constructor sets an attribute of this name."""
    methods = {name: each for base in reversed(kind.__mro__) for name, each in vars(base).items() if name != "__init__"}
    codes = [each.__code__ for each in methods.values() if isinstance(each, FunctionType)]
    return any(
        each.opname == "STORE_ATTR" and each.argval == name for code in codes for each in dis.get_instructions(code)
    )


def _is_torch_device(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "torch"


def shared_convolutions(search: Search) -> None:
    """FX226: a convolution with several calls, one of them followed by a batch normalisation."""
    run = search.best
    calls: dict[str, list[Node]] = {}
    for node in run.nodes:
        if node.op == "call_module":
            calls.setdefault(str(node.target), []).append(node)
    for target, nodes in calls.items():
        if len(nodes) > 1 and isinstance(run.module(nodes[0]), _CONVOLUTIONS):
            followed = [
                n
                for n in nodes
                if any(user.op == "call_module" and isinstance(run.module(user), _NORMS) for user in n.users)
            ]
            if followed:
                others = tuple(Related(f"`{target}` is called here too", _span(run, n), "note") for n in nodes[:-1])
                run.add(
                    "FX226",
                    run.place_of_node(nodes[-1]),
                    f"`{target}` is called {len(nodes)} times, and folding batch norm into one call changes all",
                    node=nodes[-1].name,
                    related=others,
                )


def _span(run: Run, node: Node) -> Span | None:
    place = run.place_of_node(node)
    return None if place is None else place.span


ON_GRAPH = (
    misfits,
    unknown_methods,
    mutation,
    unused_helpers,
    devices,
    shared_convolutions,
)
