"""A traced graph as an ONNX model."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch
import torch.utils._pytree as pytree

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.interop.torch_side import Undecided, sizes_undecided
from fxlib.ir.leaves import map_tensors, tensors_in
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node, arguments_of, map_arg
from fxlib.ir.paths import read
from fxlib.ir.spelling import spelling
from fxlib.lowering import profiles
from fxlib.lowering.inputs import Dynamic, Inputs
from fxlib.lowering.onnx import converters  # noqa: F401  (fills the registry)
from fxlib.lowering.onnx.arguments import rename
from fxlib.lowering.onnx.context import OPSET, Context
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import find
from fxlib.lowering.structure import holds_symbols, take_apart
from fxlib.lowering.values import Unknown, propagate
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import is_library_function, writes_to

IR_VERSION = 10
_CONVERTERS = os.path.dirname(__file__) + os.sep
IN_PLACE = "it writes in place to a tensor that is used elsewhere (an input, a parameter, or a tensor with a view)"

WRITTEN = "forward writes to a parameter or buffer that it also reads, but an engine keeps the values from its build"


@dataclass
class Exported:
    """An ONNX model and the mapping of its inputs and outputs to those of the graph.

    `inputs` are indices of the graph's tensor placeholders in the model's input order. `outputs` is the flattened
    output of the graph: the position of each tensor among the model's outputs, or a Python constant.
    """

    model: ir.Model
    inputs: list[int]
    outputs: list[int | Constant | Number]
    output_spec: Any
    parameters: dict[str, torch.Tensor]
    nodes: dict[str, list[str]] = field(default_factory=dict)
    """FX node name -> names of its ONNX nodes."""
    profiles: dict[str, tuple[list[int], list[int], list[int]]] = field(default_factory=dict)
    """Smallest, usual and largest shape of each input that has dynamic dimensions; see `fxlib.lowering.profiles`."""

    @property
    def ends(self) -> dict[str, str]:
        """The last ONNX node of an FX node, which produces its value -> that FX node."""
        return {names[-1]: node for node, names in self.nodes.items()}

    def origins(self, onnx: str) -> list[str]:
        """The FX nodes that an ONNX node comes from."""
        return [node for node, names in self.nodes.items() if onnx in names]


@dataclass(frozen=True)
class Constant:
    """An output that is not a tensor, such as None or a number."""

    value: Any


@dataclass(frozen=True)
class Number:
    """An integer output that is known only at run time: the position of a scalar among the outputs."""

    index: int


def to_onnx(gm: GraphModule, example_inputs: Sequence[Any], *, dynamic: Dynamic = None, name: str = "main") -> Exported:
    """Convert a whole graph.

    Args:
        gm: a GraphModule in evaluation mode.
        example_inputs: one per placeholder; only shapes and dtypes are used.
        dynamic: see `fxlib.lowering.inputs.Dynamic`.
        name: the ONNX graph's name.

    Raises:
        Unsupported: a node cannot be converted; the text names the node and the reason.
        TypeError, ValueError: the example inputs do not fit.
    """
    check_traced(gm, "to_onnx()")
    inputs = Inputs(gm.forward, example_inputs, dynamic, caller="to_onnx()")
    values, placeholders = propagate(gm, inputs.tensors, inputs.dims), gm.graph.find_nodes(op="placeholder")
    exported, problems = convert(gm, values, name)
    if exported is None:
        node, reason = next(iter(problems.items()))
        where = f"node {node.name!r} ({node.op} {spelling(node)})"
        raise Unsupported(f"{where}: {reason.text}", reason.code)
    profiles.add(exported, placeholders, values, profiles.roots_of(inputs, placeholders, values))
    return exported


def convert(
    gm: GraphModule, values: dict[Node, Any], name: str, shapes_only: bool = False
) -> tuple[Exported | None, dict[Node, Reason]]:
    """A graph as an ONNX model, or the nodes that cannot be converted with their reasons.

    Args:
        gm: a GraphModule in evaluation mode.
        values: the example value of every node.
        name: the ONNX graph's name.
        shapes_only: whether parameters may be on the meta device.
    """
    exporter = _Exporter(gm, values, shapes_only=shapes_only)
    problems = exporter.run()
    exported = None if problems else exporter.finish(name, problems)
    return (None if problems else exported), problems


@dataclass(frozen=True)
class Reason:
    """Why a node stays in PyTorch: the rule's code, and a text for the user. `cause` names the earlier node that causes
    it, if any."""

    code: str
    text: str
    cause: str | None = None


def unsupported(gm: GraphModule, values: dict[Node, Any], aliases: Aliases) -> dict[Node, Reason]:
    """Every node that cannot be converted, with its reason. Nodes after one are checked as if it had been converted.

    Parameters may be on the meta device.
    """
    return _Exporter(gm, values, aliases, shapes_only=True).run()


class _Exporter:
    def __init__(
        self, gm: GraphModule, values: dict[Node, Any], aliases: Aliases | None = None, shapes_only: bool = False
    ) -> None:
        self.gm, self.values = gm, values
        self.aliases = aliases
        self.written = aliases.changed_state() if aliases is not None else set[Node]()
        self.ctx = Context(gm, check=shapes_only)
        self.env: dict[Node, Any] = {}
        self.inputs: list[ir.Value] = []
        self.places: list[int] = []
        self.output: Node | None = None
        self.foreign: dict[Node, Unsupported] = {}
        """The placeholders whose type ONNX lacks, with the reason."""

    @sizes_undecided(_CONVERTERS)
    def run(self) -> dict[Node, Reason]:
        problems: dict[Node, Reason] = {}
        index = 0
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, index)
                index += 1
            elif node.op == "output":
                self.output = node
            else:
                mark = len(self.ctx.nodes)
                try:
                    self.env[node] = self._convert(node)
                except Unsupported as problem:
                    problems[node] = Reason(problem.code, str(problem), self._cause(node))
                except Undecided as size:
                    problems[node] = Reason("FX402", f"its conversion depends on {size}, which may change")
                except Exception as error:
                    text = f"its converter does not support these arguments ({error})"
                    problems[node] = Reason("FX499", text)
                if node in problems:
                    del self.ctx.nodes[mark:]
                    self.env[node] = self._stand_in(node)
        return problems

    def _cause(self, node: Node) -> str | None:
        """The earlier node that causes this one to stay in PyTorch, because its value or one of its inputs is
        unknown."""
        unknown = (value for each in (node, *node.all_input_nodes) if isinstance(value := self.values[each], Unknown))
        cause = next((value.cause for value in unknown), None)
        return None if cause == node.name else cause

    def _placeholder(self, node: Node, index: int) -> None:
        fake = self.values[node]
        if isinstance(fake, torch.SymInt):
            # A size that another part computed is passed as a scalar.
            scalar = self.ctx.bind(ir.Value(name=self.ctx.unique(node.name)), torch.empty((), dtype=torch.int64))
            self.ctx.known(fake, scalar)
            self.env[node] = fake
            self.inputs.append(scalar)
            self.places.append(index)
            return
        if not isinstance(fake, torch.Tensor):
            self.env[node] = self._stand_in(node) if _has_tensor(fake) else fake
            if _has_tensor(fake):
                self.foreign[node] = Unsupported(f"it takes a {type(fake).__name__} of tensors that another part made")
            return
        try:
            value = self.ctx.bind(ir.Value(name=self.ctx.unique(node.name)), fake)
        except Unsupported as problem:
            self.env[node] = None
            self.foreign[node] = problem
            return
        for axis, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self.ctx.symbol(str(size.node.expr), value, axis)
        self.env[node] = value
        self.inputs.append(value)
        self.places.append(index)

    def _stand_in(self, node: Node) -> Any:
        def make(fake: torch.Tensor) -> ir.Value:
            return self.ctx.bind(ir.Value(name=self.ctx.unique(f"{node.name}/missing")), fake)

        try:
            return map_tensors(make, self.values[node])
        except Unsupported:
            return None

    def _convert(self, node: Node) -> Any:
        fake = self.values[node]
        if isinstance(fake, Unknown):
            raise Unsupported(f"its {fake.what} is known only after it has run ({fake.reason})", "FX402")
        if node.op == "get_attr":
            held = read(self.gm, node.target)
            return self.ctx.parameter(node.target, held) if torch.is_tensor(held) else held
        if not _has_tensor(fake) and not self._must_run(node):
            if holds_symbols(fake):
                raise Unsupported(f"it makes an object of {type(fake).__name__} with sizes that may change", "FX402")
            return fake
        owner = read(self.gm, node.target) if node.op == "call_module" else None
        if self.aliases is not None and writes_to(self.gm, node) and self.aliases.visible_write(node):
            raise Unsupported(IN_PLACE, "FX403")
        if owner is not None and any(map(is_altered, owner.modules())):
            text = "has hooks or replaced methods, which no engine runs"
            raise Unsupported(f"the {type(owner).__name__} {text}")
        if node in self.written:
            raise Unsupported(WRITTEN, "FX403")
        converter = find(node.op, node.target, owner)
        if converter is None:
            kind = spelling(node) if owner is None else type(owner).__name__
            raise Unsupported(f"there is no converter for {kind}")
        for source in node.all_input_nodes:
            if source in self.foreign:
                raise self.foreign[source]
            if isinstance(self.values[source], Unknown):
                raise Unsupported(f"it takes {source.name!r}, a number that depends on the values of tensors", "FX402")
        self.ctx.current, self.ctx.fake = node, fake
        stack = node.meta.get("nn_module_stack")
        self.ctx.module_path = next(reversed(stack.values()))[0] if stack else ""
        args, kwargs = arguments_of(node, self.env.__getitem__)
        if owner is not None:
            args = (owner, *args)
        result = converter(self.ctx, *args, **rename(kwargs))
        return self._bind(node, result, fake)

    def _must_run(self, node: Node) -> bool:
        """Whether a node without tensor results has a side effect."""
        if node.op == "call_function" and self.values[node] is None and not is_library_function(node.target):
            return True
        return bool(writes_to(self.gm, node))

    def _missing(self, source: Node, value: Any) -> bool:
        """Whether a converter left out a result, as most do for results that only gradients need."""
        return value is None and self.values.get(source) is not None and _has_tensor(self.values[source])

    def _bind(self, node: Node, result: Any, fake: Any) -> Any:
        if isinstance(fake, torch.Tensor):
            if result is None:
                raise Unsupported("it uses a result that exists only for gradients, which no engine computes")
            if not isinstance(result, ir.Value):
                result = self.ctx.constant(result, fake.dtype)
            result = self.ctx.cast(result, fake.dtype)
            if result in self.ctx._fake and tuple(self.ctx._fake[result].shape) == tuple(fake.shape):
                return result
            return self.ctx.bind(result, fake)
        if isinstance(result, ir.Value) and isinstance(fake, (tuple, list)):
            result = (result, *[None] * (len(fake) - 1))  # a converter that returns only the first of several results
        if isinstance(result, (tuple, list)) and isinstance(fake, (tuple, list)):
            pairs = zip(result, fake, strict=False)
            bound = tuple(
                self._bind(node, r, f) if isinstance(f, torch.Tensor) and r is not None else r for r, f in pairs
            )
            # Results keep their names: the model may read `.values` of them, or return them.
            named = hasattr(fake, "n_sequence_fields") and len(bound) == len(fake)
            return type(fake)(bound) if named else bound
        return result

    @sizes_undecided(_CONVERTERS)
    def finish(self, name: str, problems: dict[Node, Reason]) -> Exported:
        """The model. Values that the graph returns but ONNX cannot output are written to `problems`."""
        assert self.output is not None
        self.ctx.current, self.ctx.module_path = self.output, ""
        held: Any = lambda node: _Held(node, self.env[node])  # noqa: E731  (no argument of a node is of its type)
        leaves, spec = pytree.tree_flatten(map_arg(self.output.args[0], held))
        flat: list[tuple[Node, Any]] = []
        rebuilt = []
        for leaf in leaves:
            source, returned = (leaf.node, leaf.value) if isinstance(leaf, _Held) else (self.output, leaf)
            if isinstance(returned, torch.Size) and any(isinstance(each, torch.SymInt) for each in returned):
                returned = tuple(returned)
            inner, inner_spec = pytree.tree_flatten(returned, is_leaf=lambda each: isinstance(each, torch.Size))
            rebuilt.append(inner_spec)
            flat.extend((source, each) for each in inner)
        outputs: list[int | Constant | Number] = []
        values: list[ir.Value] = []
        taken = set(self.inputs)
        for source, leaf in flat:
            self.ctx.current = source
            symbolic = isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool))
            if symbolic:
                try:
                    leaf = self._size(leaf)
                except Unsupported as problem:
                    problems[source] = Reason(problem.code, str(problem))
                    continue
            if self._missing(source, leaf):
                problems[source] = Reason(
                    "FX401", "one of its results exists only for gradients, which no engine computes"
                )
                continue
            if not isinstance(leaf, ir.Value):
                outputs.append(Constant(leaf))
                continue
            # An ONNX output is a value of its own: neither an input, nor a weight, nor another output.
            if leaf in taken or leaf.const_value is not None:
                fake = self.ctx.example(leaf)
                leaf = self.ctx.bind(self.ctx.op("Identity", leaf), fake)
            taken.add(leaf)
            outputs.append(Number(len(values)) if symbolic else len(values))
            values.append(leaf)
        nodes, initializers = _live(self.ctx, values)
        graph = ir.Graph(
            self.inputs,
            values,
            nodes=nodes,
            initializers=initializers,
            name=name,
            opset_imports={"": OPSET, **{n.domain: 1 for n in nodes if n.domain}},
        )
        by_node: dict[str, list[str]] = {}
        for onnx_node in nodes:
            by_node.setdefault(onnx_node.metadata_props["fx.node"], []).append(onnx_node.name or "")
        model = ir.Model(graph, ir_version=IR_VERSION, producer_name="fxlib")
        kept = {v.name for v in initializers}
        parameters = {k: v for k, v in self.ctx.parameters.items() if k in kept}
        return Exported(model, self.places, outputs, (spec, rebuilt), parameters, by_node)

    def _size(self, number: Any) -> ir.Value:
        """A size that is known only at run time, as a scalar."""
        if not isinstance(number, torch.SymInt):
            raise Unsupported(f"{number} depends on a dynamic dimension and is not an integer", "FX402")
        return self.ctx.bind(self.ctx.number(number), torch.empty((), dtype=torch.int64))


class _Held:
    """Hides the value of a node from pytree while the output's own structure is flattened."""

    def __init__(self, node: Node, value: Any) -> None:
        self.node = node
        self.value = value


def _live(ctx: Context, outputs: Sequence[ir.Value]) -> tuple[list[ir.Node], list[ir.Value]]:
    """The nodes and initializers that the outputs need, in order."""
    needed: set[ir.Value] = set(outputs)
    kept: list[ir.Node] = []
    for node in reversed(ctx.nodes):
        if any(out in needed for out in node.outputs):
            kept.append(node)
            needed.update(v for v in node.inputs if v is not None)
    return kept[::-1], [v for v in ctx.initializers.values() if v in needed]


def _has_tensor(value: Any) -> bool:
    return bool(tensors_in(value)) or any(map(torch.is_tensor, take_apart(value)[0]))


def functionalize(gm: GraphModule) -> None:
    """Let every later reader of a tensor that was written in place read the writing node instead.

    Changes the graph in place; results stay the same, since both names mean the same tensor.
    """
    for node in list(gm.graph.nodes):
        if node.target in (operator.setitem, "__setitem__") or not node.args or node.args[0] not in writes_to(gm, node):
            continue
        written: Any = node.args[0]
        later = [user for user in written.users if user is not node and node < user]
        for user in later:
            user.replace_input_with(written, node)
