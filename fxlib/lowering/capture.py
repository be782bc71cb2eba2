"""A model as a graph whose placeholders are the tensors of an example call: traced, or exported where that fails.

A trace is tried first: it is fast, and its nodes are the modules and functions that people wrote. torch.export runs the
model on tensors of known shapes, so it also captures models whose Python code depends on shapes, and records ATen
operators.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from fxlib.capture.module_state import unchanged
from fxlib.capture.root_arguments import _assert_is_none
from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted, from_torch_fx
from fxlib.interop.torch_side import size_decisions
from fxlib.ir.graph import Graph
from fxlib.ir.modules import copy_of, data_kept, writes_undone
from fxlib.ir.node import Node, map_arg
from fxlib.lowering.guards import guards_of
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.onnx.export import functionalize
from fxlib.lowering.onnx.registry import find
from fxlib.lowering.part import EnginePart
from fxlib.lowering.structure import TENSOR, Form, put_together, take_apart
from fxlib.lowering.values import is_fixed
from fxlib.shapes.kernel import refusals_unlogged

CAPTURES = {"fx": "torch.fx", "export": "torch.export"}
"""Name -> the display name of the capture that made the graph."""


class CaptureError(RuntimeError):
    """The model cannot be captured in any way; the text has the reason for each."""


@dataclass
class Captured:
    """A captured model."""

    gm: GraphModule
    """One placeholder for each tensor of the inputs, in evaluation mode; the graph is its own."""
    tensors: list[torch.Tensor]
    """The example's tensors, in the precision of the graph."""
    by: str
    """A key of `CAPTURES`."""
    output: Form | None
    """The structure of the result, if the graph returns only its tensors."""
    refused: str | None = None
    """Why there is no trace, if another capture was used."""
    lost: tuple[str, ...] = ()
    """The parameters and buffers that forward wrote to while it was traced: the graph does not."""


def check_model(model: Any, caller: str, capture: str | None = None) -> None:
    """
    Raises:
        TypeError: `model` is not a module.
        ValueError: there is no such capture.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{caller}: model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(f"{caller}: model must be a module of Python, not a {type(model).__name__} of TorchScript")
    if any(isinstance(each, EnginePart) for each in model.modules()):
        raise TypeError(f"{caller} got a model that is already lowered; lower the original model")
    if capture is not None and capture not in CAPTURES:
        raise ValueError(f"{caller} has no capture {capture!r}; one of {', '.join(map(repr, CAPTURES))}, or None")


def capture(
    model: torch.nn.Module, inputs: Inputs, wanted: str | None = None, dtype: torch.dtype | None = None
) -> Captured:
    """The graph of a model for these inputs.

    Args:
        model: a module, or a GraphModule of ours or of torch.fx, whose graph is then taken.
        inputs: an example call.
        wanted: a key of `CAPTURES`; None is the first that succeeds.
        dtype: the dtype to which floating-point weights and inputs are cast.

    Raises:
        CaptureError: no capture succeeds.
        Exception: the error of the trace or export, if only that was wanted.
    """
    model = adopted(model)
    if wanted == "export" and not isinstance(model, GraphModule):
        return export(model, inputs, dtype)
    cause: Exception | None = None
    try:
        found = trace(model, inputs, dtype)
        if wanted == "fx" or not found.lost:
            return found
        refused = f"forward writes to {_listed(found.lost)} only while it is traced; capture='fx' allows this"
    except Exception as error:
        if wanted == "fx" or isinstance(model, GraphModule):
            raise
        cause, refused = error, first_line(error)
    return export_instead(model, inputs, dtype, refused, cause)


def export_instead(
    model: torch.nn.Module, inputs: Inputs, dtype: torch.dtype | None, refused: str, cause: Exception | None = None
) -> Captured:
    """Capture by torch.export, since a trace failed for the reason `refused`.

    Raises:
        CaptureError: it cannot be exported either.
    """
    try:
        found = export(model, inputs, dtype)
    except Exception as second:
        raise CaptureError(
            f"{type(model).__name__} cannot be captured. torch.fx: {refused}. torch.export: {first_line(second)}"
        ) from cause or second
    found.refused = refused
    return found


def trace(model: torch.nn.Module, inputs: Inputs, dtype: torch.dtype | None = None) -> Captured:
    """Capture by a symbolic trace in which only the input tensors are symbolic; a GraphModule's graph is used
    unchanged."""
    gm, lost = model, list[str]()
    if not isinstance(gm, GraphModule):
        concrete = inputs.concrete_args()
        with unchanged(model), data_kept(model), writes_undone(model) as lost, warnings.catch_warnings():
            if concrete is not None:
                warnings.simplefilter("ignore")  # about constants without a check in the trace: each call checks them
            gm = symbolic_trace(model, concrete)
    info = getattr(gm.graph._codegen, "pytree_info", None)
    output = None
    if info is not None and info.out_spec is not None:
        output = Form(info.out_spec, [TENSOR] * info.out_spec.num_leaves)
    private = with_own_graph(gm)
    _without_constants(private, inputs.by_placeholder(leaves=info is not None))
    functionalize(private)
    if dtype is not None:
        private = copy_of(private).to(dtype)
    return Captured(private, _cast(inputs.tensors, dtype), "fx", output, lost=tuple(lost))


def export(model: torch.nn.Module, inputs: Inputs, dtype: torch.dtype | None = None) -> Captured:
    """Capture by torch.export. Operators without a converter are decomposed into the core operator set."""
    if dtype is not None:
        model = copy_of(model).to(dtype)
    tensors = _cast(inputs.tensors, dtype)
    forms: list[Form] = []
    outer = _Tensors(model, inputs, forms.append)
    examples = [_widened(tensor, dims) for tensor, dims in zip(tensors, inputs.dims, strict=True)]
    sizes: Any = [dict.fromkeys(dims, torch.export.Dim.AUTO) for dims in inputs.dims]
    dynamic = (tuple(sizes),) if any(sizes) else None
    with torch.no_grad(), unchanged(model), data_kept(model), _quiet():
        with size_decisions() as decisions:
            program = torch.export.export(outer, tuple(examples), dynamic_shapes=dynamic, strict=False)
        _check_dynamic(program, inputs)
        try:
            inputs.guards = guards_of(program, inputs.dims, decisions)
        except ValueError as error:
            raise CaptureError(str(error)) from error
        if not all(_converts(node) for node in program.graph.nodes):
            program = program.run_decompositions(_decompositions())
        gm = from_torch_fx(program.module(check_guards=False))
    flat = _Flattening()
    flat.graph.output(flat.copied(gm))
    flat.graph.eliminate_dead_code()
    flat.graph.lint()
    for guard in inputs.guards:
        if not guard.holds(tensors):  # one of its sizes was enlarged
            raise CaptureError(
                f"forward takes another branch with the example's sizes than for {guard.shown(inputs.labels)}; lower "
                "with an example whose dynamic sizes are larger than 1"
            )
    made = GraphModule(flat.attributes, flat.graph, type(model).__name__).eval()
    return Captured(made, tensors, "export", forms[-1])


def _check_dynamic(program: Any, inputs: Inputs) -> None:
    """
    Raises:
        CaptureError: the program fixes the size of a dimension that should be dynamic.
    """
    names = program.graph_signature.user_inputs
    given = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, label, dims in zip(names, inputs.labels, inputs.dims, strict=True):
        for dim in dims:
            if is_fixed(given[name].shape[dim]):
                raise CaptureError(
                    f"dimension {dim} of {label!r} cannot be dynamic: the model computes with the example's size"
                )


class _Tensors(torch.nn.Module):
    """A model as a module that takes and returns tensors only."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs, keep: Callable[[Form], None]) -> None:
        """`keep` receives the form of each result, since torch.export reverts changes to the module itself."""
        super().__init__()
        self.model, self.inputs, self.keep = model, inputs, keep

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results, form = take_apart(self.inputs.call(self.model, tensors))
        self.keep(form)
        return tuple(results)


def _widened(tensor: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """A tensor of its own, since torch.export takes one that is given twice for one input; each dynamic dimension is
    enlarged to at least 2, since it treats a size of 1 as static."""
    tensor = tensor.detach().clone()
    for dim in dims:
        if tensor.shape[dim] == 1:
            tensor = torch.cat([tensor, tensor], dim)
    return tensor


def _converts(node: Any) -> bool:
    """Whether a node of an exported graph can be converted without decomposition."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return True
    return not node.target._schema.is_mutable and (_check(node) or find(node.op, node.target, None) is not None)


def _decompositions() -> dict[Any, Any]:
    """torch's table, without the operators that have a converter."""
    table = torch.export.default_decompositions()
    for operator_ in [each for each in table if find("call_function", each, None) is not None]:
        del table[operator_]
    return table


def _check(node: Any) -> bool:
    """Whether a node is only a check of its inputs."""
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    return name.startswith(("aten::_assert", "aten::sym_constrain"))


class _Flattening:
    """Copies an exported graph without its checks, and with the graphs of regions inlined.

    Attributes and module paths lose the name under which `_Tensors` has the model.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}

    def copied(self, gm: Any, given: Sequence[Any] | None = None) -> Any:
        """Copy a graph, its placeholders being `given`; returns what it returns."""
        made: dict[Node, Any] = {}
        arguments = iter(given or ())
        for node in gm.graph.nodes:
            region = _region(gm, node)
            if node.op == "output":
                return map_arg(node.args[0], made.__getitem__)
            if node.op == "placeholder" and given is not None:
                made[node] = next(arguments)
            elif node.op == "get_attr":
                made[node] = self._attribute(gm, node)
            elif region is not None:
                inner, inputs = region
                made[node] = self.copied(inner, [made[each] for each in inputs])
            elif node.target is operator.getitem and not isinstance(made[node.args[0]], Node):
                made[node] = made[node.args[0]][node.args[1]]
            elif not _check(node):
                made[node] = self._copy(node, made)
        raise AssertionError("a graph ends with its output")

    def _attribute(self, gm: Any, node: Node) -> Node:
        path = str(node.target).removeprefix("model.")
        self.attributes[path] = operator.attrgetter(str(node.target))(gm)
        made = self.graph.create_node("get_attr", path, name=path.replace(".", "_"))
        made.meta = dict(node.meta)
        return made

    def _copy(self, node: Node, made: dict[Node, Any]) -> Node:
        copied = self.graph.node_copy(node, made.__getitem__)
        copied.meta = dict(node.meta)
        stack = node.meta.get("nn_module_stack")
        if stack:
            # The outermost entry is that of `_Tensors`.
            copied.meta["nn_module_stack"] = {
                _within(key, "L__self__model"): (_within(path, "model"), kind)
                for key, (path, kind) in list(stack.items())[1:]
            }
        return copied


def _within(path: str, root: str) -> str:
    return path.removeprefix(root).removeprefix(".")


def _region(gm: Any, node: Node) -> tuple[Any, list[Node]] | None:
    """The graph that a node calls under settings that do not matter for inference, and its arguments."""
    target = node.target
    if not isinstance(target, HigherOrderOperator):
        return None
    if target.name() == "wrap_with_set_grad_enabled":
        _, body, *inputs = node.args
    elif target.name() == "wrap_with_autocast" and node.args[2] is False:
        *_, body = node.args[:5]
        inputs = list(node.args[5:])
    else:
        return None
    return operator.attrgetter(str(body.target))(gm), inputs  # type: ignore[union-attr, return-value]


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's warnings, logs and prints about a failing export, since the error has the same information."""
    with warnings.catch_warnings(), redirect_stderr(StringIO()), refusals_unlogged():
        warnings.simplefilter("ignore")
        yield


def _without_constants(gm: GraphModule, forms: Sequence[Form]) -> None:
    """Leave placeholders for tensors only; the other inputs become constants of the graph.

    Args:
        gm: changed in place.
        forms: the form of each placeholder's value.
    """
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, form in zip(placeholders, forms, strict=True):
        node.args = ()
        if not form.single:
            with gm.graph.inserting_before(node):
                made = [gm.graph.placeholder(f"{node.name}_{index}") for index in range(form.count())]
            _put(node, put_together(form, iter(made)))
    gm.recompile()


def _put(node: Node, value: Any) -> None:
    """Replace a node by a value, which may be a structure that holds nodes."""
    for user in list(node.users):
        if user.target is operator.getitem and not isinstance(value, (Node, torch.Tensor)):
            _put(user, value[user.args[1]])
        elif user.target is operator.eq and all(each.target is torch._assert for each in user.users):
            for check in list(user.users):
                check.graph.erase_node(check)
            user.graph.erase_node(user)
        elif user.target is _assert_is_none:
            user.graph.erase_node(user)
        else:
            change = lambda each: value if each is node else each  # noqa: E731
            user.args, user.kwargs = map_arg(user.args, change), map_arg(user.kwargs, change)
    node.graph.erase_node(node)


def with_own_graph(gm: GraphModule) -> GraphModule:
    """A GraphModule with a copy of the graph over the same submodules and parameters."""
    graph = Graph()
    environment: dict[Node, Node] = {}
    result = graph.graph_copy(gm.graph, environment)
    output = next(n for n in gm.graph.nodes if n.op == "output")
    made = graph.output(result)
    made.meta.update(output.meta)
    private = GraphModule(gm, graph, type(gm).__name__)
    private.training = False  # its layers are shared with the model
    return private


def _cast(tensors: Sequence[torch.Tensor], dtype: torch.dtype | None) -> list[torch.Tensor]:
    return [each.to(dtype) if dtype is not None and each.is_floating_point() else each for each in tensors]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no text'}"[:300]
