"""The example value of every node of a graph: the shapes, dtypes and Python numbers that converters need.

Values are tensors on the meta device (no data), so a model of any size costs no memory; with dynamic dimensions they
are torch's fake tensors, whose sizes are symbolic integers. If an operator has no rule and cannot run without data, its
result gets torch's own symbols for data-dependent sizes, such as the number of elements that a mask selects. If torch
has no such rule either, the graph is run once on the real example inputs and only the metadata is kept, unless its
sizes may vary from run to run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fxlib import shapes
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.torch_side import size_decisions, symbolic_tensors
from fxlib.ir.leaves import copied, tensors_in
from fxlib.ir.modules import data_kept
from fxlib.ir.node import Node, arguments_of
from fxlib.ir.paths import read
from fxlib.passes.aliases import Aliases
from fxlib.shapes.kernel import map_values, refusals_unlogged
from fxlib.shapes.tensor_meta import TensorMeta

_DATA = "it depends on the values of tensors"
_MASKS = (torch.bool, torch.uint8)
_READS = {"item", "tolist", "numpy", "__int__", "__index__", "__array__"}
_NO_SIZES = (float, bool, complex, str, type(None))
"""Types whose values may vary between runs without changing a shape."""


class Unknown:
    """The value of a node that could not be computed without running it; `reason` says why. `cause` is the name of the
    earlier unknown node if that is the reason; `what` says what is unknown."""

    def __init__(self, reason: str, cause: str | None = None, what: str = "shape") -> None:
        self.reason = reason
        self.cause = cause
        self.what = what


def propagate(gm: GraphModule, inputs: Sequence[Any], dims: Sequence[Sequence[int]] | None = None) -> dict[Node, Any]:
    """Compute the example value of every node.

    Args:
        gm: a GraphModule.
        inputs: one example per placeholder; tensors may be on the meta device.
        dims: per input, the dimensions that may change between calls.

    Returns:
        node -> meta or fake tensor, Python value, or nested tuples and dicts of them; `Unknown` if it depends on data.
    """
    if dims is not None and any(dims):
        return _symbolic(gm, inputs, dims)
    values: dict[Node, Any] = {}
    described: dict[Node, Any] = {}  # the same as `TensorMeta`, which has the device that the model will see
    to_home = functools.partial(_at, _home(gm, inputs))

    def step(node: Node) -> Any:
        found = shapes.infer(node.op, node.target, *arguments_of(node, described.__getitem__), gm)
        described[node] = map_values(found, to_home)
        return map_values(described[node], _meta)

    placeholders = gm.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, inputs, strict=True):
        described[node], values[node] = map_values(value, to_home), map_values(value, _meta)
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output"):
            values[node] = _found(node, values, step)
    if any(isinstance(v, Unknown) for v in values.values()):
        _by_symbols(gm, inputs, values)
        _measure(gm, inputs, values)
    return values


def _by_symbols(gm: GraphModule, inputs: Sequence[Any], values: dict[Node, Any]) -> None:
    """Fill in values by fake tensors, with a symbol for each data-dependent size. A data-dependent number stays
    unknown."""
    symbolic = _symbolic(gm, inputs, [()] * len(inputs))
    for node, value in values.items():
        if isinstance(value, Unknown) and tensors_in(symbolic[node]):
            values[node] = symbolic[node]


def _symbolic(gm: GraphModule, inputs: Sequence[Any], dims: Sequence[Sequence[int]]) -> dict[Node, Any]:
    """Values with symbolic sizes. A node that torch computes for one size only, such as a GRU for one length, stays
    unknown."""
    fixing: dict[Node, Unknown] = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    while True:
        mode, fakes = symbolic_tensors(inputs, dims)
        values: dict[Node, Any] = dict(zip(placeholders, fakes, strict=True))
        sizes = [fake.shape[dim] for fake, some in zip(fakes, dims, strict=True) for dim in some]
        step = functools.partial(_run_fake, gm, values=values, mode=mode)
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            with refusals_unlogged(), size_decisions() as decisions:
                values[node] = fixing.get(node) or _found(node, values, step)
            if not tensors_in(values[node]) and any(file == __file__ for _, file in decisions):
                # Such as `(n > 3) * 2`, or `math.sqrt(n)`.
                values[node] = Unknown("torch computes it for the example's sizes only", node.name, "value")
            if node not in fixing and any(is_fixed(size) for size in sizes):
                fixing[node] = Unknown("torch computes it for one size of a dynamic dimension only")
                break
        else:
            return values


def is_fixed(size: Any) -> bool:
    """Whether a formerly symbolic size is known to be a constant."""
    return not isinstance(size, torch.SymInt) or size.node.expr.is_number


def _found(node: Node, values: dict[Node, Any], step: Callable[[Node], Any]) -> Any:
    source = next((a for a in node.all_input_nodes if isinstance(values[a], Unknown)), None)
    if source is not None:
        return _after(source, values)
    try:
        return step(node)
    except Exception as error:
        text = str(error).strip().splitlines()
        return Unknown(f"{type(error).__name__}: {text[0] if text else 'no text'}"[:300])


def _after(source: Node, values: dict[Node, Any]) -> Unknown:
    first = values[source].cause or source.name
    return Unknown(f"it uses {first!r}, whose {values[source].what} is not known", first)


def recorded(gm: GraphModule) -> dict[Node, Any]:
    """The example value of every node as torch.export recorded it, with symbolic sizes where a dimension may change."""
    values: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            values[node] = map_values(read(gm, node.target), _meta)
        elif node.op != "output":
            values[node] = map_values(node.meta["val"], _meta) if "val" in node.meta else None
    return values


def _meta(leaf: Any) -> Any:
    """A tensor on the meta device for a tensor, or for the `TensorMeta` that a shape rule returns."""
    if isinstance(leaf, TensorMeta):
        return leaf.empty()
    if not torch.is_tensor(leaf) or leaf.is_meta or not all(isinstance(size, int) for size in leaf.shape):
        return leaf
    return TensorMeta.of(leaf).blank("meta")


def _home(gm: GraphModule, inputs: Sequence[Any]) -> torch.device:
    """The device that the model runs on; parameters and inputs may be on the meta device instead."""
    held = (tensor.device for tensor in (*tensors_in(inputs), *gm.parameters(), *gm.buffers()) if not tensor.is_meta)
    return next(held, torch.device("cpu"))


def _at(home: torch.device, leaf: Any) -> Any:
    """The description of a tensor, on the device of the model if it is on the meta device."""
    if torch.is_tensor(leaf):
        leaf = TensorMeta.of(leaf)
    if not isinstance(leaf, TensorMeta):
        return leaf
    device = home if leaf.device.type == "meta" else leaf.device
    return TensorMeta(leaf.shape, leaf.dtype, device, leaf.strides)


def _call(gm: torch.nn.Module, node: Node, values: dict[Node, Any]) -> Any:
    args, kwargs = arguments_of(node, values.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    function = node.target if node.op == "call_function" else read(gm, node.target)
    return function if node.op == "get_attr" else function(*args, **kwargs)


def _run_fake(gm: torch.nn.Module, node: Node, values: dict[Node, Any], mode: Any) -> Any:
    # torch's composite kernels in C++ specialize symbolic sizes; its Python dispatcher has versions that keep them.
    with enable_python_dispatcher(), mode, torch.no_grad():
        result = _call(gm, node, values)
        return mode.from_tensor(result) if node.op == "get_attr" and torch.is_tensor(result) else result


def _measure(gm: GraphModule, given: Sequence[Any], values: dict[Node, Any]) -> None:
    """Run the graph on real inputs and keep the metadata of nodes that had none."""
    if any(tensor.is_meta for tensor in [*filter(torch.is_tensor, given), *gm.parameters(), *gm.buffers()]):
        return
    # In-place nodes must not write to the caller's examples.
    real = dict(zip(gm.graph.find_nodes(op="placeholder"), map(copied, given), strict=False))
    with torch.no_grad(), data_kept(gm, Aliases(gm).changes_state()):
        for node in gm.graph.nodes:
            sized, read_out = _Sized(), _Read()
            if node.op not in ("placeholder", "output"):
                try:
                    with sized, read_out:
                        real[node] = _call(gm, node, real)
                except Exception:
                    return
            if isinstance(values.get(node), Unknown):
                unsure = (a for a in node.all_input_nodes if isinstance(values[a], Unknown))
                source = next((a for a in unsure if type(real[a]) not in _NO_SIZES), None)
                if source is not None:
                    values[node] = _after(source, values)
                elif not tensors_in(real[node]):
                    # A number that is known only from a run may vary with the next one.
                    values[node] = Unknown(_DATA, node.name, "value")
                elif sized.seen or read_out.seen:
                    values[node] = Unknown(_DATA, node.name)
                else:
                    values[node] = map_values(real[node], _meta)


class _Sized(TorchDispatchMode):
    """Records whether an operator with a data-dependent result size ran."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.dynamic_output_shape in func.tags:
            # Indexing has the tag because of boolean masks.
            chosen = tensors_in(args[1:]) if func is torch.ops.aten.index.Tensor else None
            self.seen |= chosen is None or any(index.dtype in _MASKS for index in chosen)
        return func(*args, **(kwargs or {}))


class _Read(TorchFunctionMode):
    """Records whether numbers were read that may become sizes; booleans and `float(x)` do not count."""

    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READS:
            self.seen |= any(tensor.dtype != torch.bool for tensor in tensors_in(args))
        return func(*args, **(kwargs or {}))
