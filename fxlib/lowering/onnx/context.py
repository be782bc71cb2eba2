"""The interface for converters: it emits ONNX nodes, constants, parameters and dimensions into one graph.

A converter sees three kinds of arguments. A tensor is an `onnx_ir.Value`. A number, string, dtype or `None` is passed
unchanged. A size that depends on a dynamic dimension is a `torch.SymInt`; `Context.shape` and `Context.number` turn it
into ONNX nodes when a converter needs it as data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir import tensor_adapters

from fxlib.ir.node import Node
from fxlib.lowering.onnx.arguments import listed
from fxlib.lowering.onnx.dtypes import FROM_ONNX, Unsupported, onnx_type
from fxlib.lowering.places import span_of

OPSET = 20
"""The ONNX operator set that converters write. 20 is the first with Gelu and is read by ONNX Runtime >= 1.17 and
TensorRT >= 10."""

INT64_MAX = 2**63 - 1
STABLE = "fx.stable"
"""Marks a TopK that must keep the order of equal elements, as ONNX says, but as not every engine does."""
_ARITHMETIC = {
    "Add": "Add", "Mul": "Mul", "FloorDiv": "FloorDiv", "CleanDiv": "Div", "Mod": "Mod", "PythonMod": "Mod",
}  # fmt: skip
"""The forms that sizes take besides symbols and integers (sympy's, and torch's own) -> the operator for them."""
ORIGIN = "lowering_origin"
"""Key of a node's meta: its name in the whole graph; its copy in a part may have another name."""


class Context:
    """Collects the ONNX nodes of one graph."""

    def __init__(self, root: torch.nn.Module, check: bool = False) -> None:
        self.root = root
        self.check = check
        """Whether only the reasons against a conversion are needed; parameters then need no data."""
        self.nodes: list[ir.Node] = []
        self.initializers: dict[str, ir.Value] = {}
        self.parameters: dict[str, torch.Tensor] = {}
        """Initializer name -> the model's own tensor; memory is shared, never copied."""
        self.current: Node | None = None
        """The FX node being converted: its name and span go on every ONNX node."""
        self.module_path: str = ""
        self.fake: Any = None
        """The example output of the FX node being converted (fake tensor, or tuple of them)."""
        self._dtype: dict[ir.Value, torch.dtype] = {}
        self._fake: dict[ir.Value, torch.Tensor] = {}
        self._constants: dict[Any, ir.Value] = {}
        self._symbols: dict[str, tuple[ir.Value, int]] = {}
        self._dims: dict[str, ir.Value] = {}
        self._by_id: dict[int, ir.Value] = {}
        self._held: list[torch.Tensor] = []  # an id is valid only while its tensor lives
        self._names: dict[str, int] = {}

    # -- values
    # -----------------------------------------------------------------------------------------------------------

    def bind(self, value: ir.Value, fake: torch.Tensor) -> ir.Value:
        """Record that `value` has the shape and dtype of `fake`."""
        self._fake[value] = fake
        self._dtype[value] = fake.dtype
        value.type = ir.TensorType(onnx_type(fake.dtype))
        value.shape = ir.Shape([d if isinstance(d, int) else str(d) for d in fake.shape])
        return value

    def example(self, value: Any) -> Any:
        """The fake tensor of a value (or the number itself)."""
        if isinstance(value, ir.Value):
            fake = self._fake.get(value)
            if fake is None:
                raise Unsupported("the shape of an intermediate result is not known", "FX402")
            return fake
        return value

    def sizes(self, value: ir.Value) -> tuple[int | torch.SymInt, ...]:
        return tuple(self.example(value).shape)

    def rank(self, value: ir.Value) -> int:
        return len(self.sizes(value))

    def dtype(self, value: Any) -> torch.dtype:
        if isinstance(value, ir.Value):
            return self._dtype[value]
        return {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}.get(type(value), torch.int64)

    def static(self, size: Any, what: str) -> int:
        """`size` as a plain int; raises for a dynamic one, naming what needs it."""
        if isinstance(size, int):
            return size
        raise Unsupported(f"{what} must be a constant, but it depends on a dynamic dimension ({size})", "FX402")

    def filled(self, value: ir.Value, operator: str) -> None:
        """Refuse a value of which a size may be 0 though none of the inputs' is, for an operator that engines cannot
        compute of nothing."""
        for size in self.sizes(value):
            if size == 0 if isinstance(size, int) else not size.node.expr.is_positive:
                raise Unsupported(f"engines cannot compute {operator} of empty tensors, and {size} may be 0", "FX402")

    # -- emission
    # ---------------------------------------------------------------------------------------------------------

    def unique(self, base: str) -> str:
        count = self._names.get(base)
        self._names[base] = (count or 0) + 1
        return base if count is None else f"{base}.{count}"

    def op(
        self,
        op_type: str,
        *inputs: Any,
        outputs: int = 1,
        dtype: torch.dtype | Sequence[torch.dtype] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Emit one ONNX node and return its output value (a tuple where `outputs` > 1).

        Inputs that are not values become constants: ints as int64, floats in the dtype of the first tensor input.
        `dtype` is the result's; by default that of the first input. Attributes that are None are left out.
        """
        first = next((self._dtype[v] for v in inputs if isinstance(v, ir.Value)), None)
        ready = [v if v is None or isinstance(v, ir.Value) else self.constant(v, first) for v in inputs]
        # Trailing optional inputs are dropped, inner ones stay as gaps: this is ONNX's convention.
        while ready and ready[-1] is None:
            ready.pop()
        kept = [_attribute(k, v) for k, v in attributes.items() if v is not None]
        node = ir.Node(domain, op_type, ready, kept, num_outputs=outputs)
        name = self.current.meta.get(ORIGIN, self.current.name) if self.current is not None else op_type.lower()
        node.name = self.unique(f"{name}/{op_type}")
        node.metadata_props["fx.node"] = name
        if self.module_path:
            node.metadata_props["fx.module"] = self.module_path
        span = span_of(self.current) if self.current is not None else None
        if span is not None:
            node.metadata_props["fx.span"] = ":".join(map(str, span))
        self.nodes.append(node)
        kinds = dtype if isinstance(dtype, (tuple, list)) else [dtype] * outputs
        for index, (out, kind) in enumerate(zip(node.outputs, kinds, strict=True)):
            out.name = node.name if outputs == 1 else f"{node.name}:{index}"
            chosen = kind or first
            if chosen is not None:
                self._dtype[out] = chosen
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> ir.Value:
        """A constant: number, list of numbers, numpy array or torch tensor. Equal small constants are shared."""
        if isinstance(value, torch.SymInt):
            return self.number(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"the number {value} is known only when the model runs", "FX402")
        if isinstance(value, torch.Tensor):
            return self.parameter(f"constant_{len(self.parameters)}", value)
        if not isinstance(value, np.ndarray):
            if isinstance(value, bool) and dtype is None:
                dtype = torch.bool
            if dtype is None:
                dtype = torch.float32 if isinstance(value, float) else torch.int64
            wanted = onnx_type(dtype)
            array = np.array(value, dtype=wanted.numpy())
        else:
            array = value
        key = (array.dtype.str, str(array.dtype), array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            name = self.unique("const")
            held = ir.tensor(array, name=name)
            found = ir.Value(name=name, const_value=held)
            found.type, found.shape = ir.TensorType(held.dtype), ir.Shape(array.shape)
            self._constants[key] = self.initializers[name] = found
            self._dtype[found] = FROM_ONNX[held.dtype]
        return found

    def parameter(self, name: str, tensor: torch.Tensor) -> ir.Value:
        """A parameter, buffer or tensor constant of the model, sharing its memory."""
        key = id(tensor)
        found = self._by_id.get(key)
        if found is None:
            self._held.append(tensor)
            tensor = tensor.detach().resolve_neg().resolve_conj()
            if tensor.is_meta and not self.check:
                raise Unsupported(f"parameter {name!r} is on the meta device and has no data", "FX499")
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            name = self.unique(name)
            held = tensor_adapters.TorchTensor(tensor, name=name)
            found = ir.Value(name=name, const_value=held)
            self.bind(found, tensor)
            self.initializers[name] = self._by_id[key] = found
            self.parameters[name] = tensor
        return found

    def own(self, module: torch.nn.Module, name: str) -> ir.Value | None:
        """A parameter or buffer of the module that is being converted, or None if it has none."""
        tensor = getattr(module, name, None)
        owner = None if self.current is None else self.current.target
        return None if tensor is None else self.parameter(f"{owner}.{name}", tensor)

    # -- numbers, dimensions and shapes
    # ---------------------------------------------------------------------------------------

    def symbol(self, name: str, value: ir.Value, axis: int) -> None:
        """Declare that the dynamic dimension `name` is the size of `value` at `axis`."""
        self._symbols.setdefault(name, (value, axis))

    def known(self, size: torch.SymInt, value: ir.Value) -> None:
        """Declare that the scalar `value` holds a size, which may be an expression."""
        self._dims[str(size.node.expr)] = value

    def number(self, size: Any) -> ir.Value:
        """An int, a dynamic size or an integer tensor as an int64 scalar value."""
        if isinstance(size, ir.Value):
            return size if self._dtype[size] == torch.int64 else self.cast(size, torch.int64)
        if isinstance(size, int):
            return self.constant(size, torch.int64)
        return self._expression(size.node.expr)

    def _expression(self, expr: Any) -> ir.Value:
        if expr.is_Integer:
            return self.constant(int(expr), torch.int64)
        text = str(expr)
        if text in self._dims:
            return self._dims[text]
        if expr.is_Symbol:
            if text not in self._symbols:
                raise Unsupported(f"the dynamic dimension {text} is not a size of any input of this part", "FX402")
            value, axis = self._symbols[text]
            full = self.op("Shape", value, start=axis, end=axis + 1, dtype=torch.int64)
            result = self.op("Squeeze", full, self.constant([0], torch.int64))
        else:
            kind = _ARITHMETIC.get(type(expr).__name__)
            if kind is None or any(getattr(a, "is_Rational", False) and not a.is_Integer for a in expr.args):
                raise Unsupported(f"the size {text} cannot be computed in ONNX", "FX402")
            emit = self.floor_div if kind == "FloorDiv" else partial(self.op, kind)
            result = reduce(emit, (self._expression(a) for a in expr.args))
        self._dims[text] = result
        return result

    def floor_div(self, dividend: ir.Value, divisor: ir.Value) -> ir.Value:
        """The quotient of integers, rounded down as in Python: ONNX's Div rounds towards zero, but its Mod has the sign
        of the divisor, as Python's."""
        return self.op("Div", self.op("Sub", dividend, self.op("Mod", dividend, divisor)), divisor)

    def shape(self, sizes: Iterable[Any]) -> ir.Value:
        """Sizes (ints, dynamic sizes, integer scalars) as a one-dimensional int64 value."""
        sizes = list(sizes)
        if all(isinstance(s, int) for s in sizes):
            return self.constant(np.array(sizes, dtype=np.int64))
        axes = self.constant([0], torch.int64)
        parts = [
            self.constant([s], torch.int64) if isinstance(s, int) else self.op("Unsqueeze", self.number(s), axes)
            for s in sizes
        ]
        return self.op("Concat", *parts, axis=0, dtype=torch.int64) if len(parts) > 1 else parts[0]

    # -- everyday helpers
    # -----------------------------------------------------------------------------------------------------

    def cast(self, value: Any, dtype: torch.dtype) -> ir.Value:
        if not isinstance(value, ir.Value):
            if isinstance(value, torch.SymInt):
                value = self.number(value)
            else:
                return self.constant(value, dtype)
        if self._dtype[value] == dtype:
            return value
        result = self.op("Cast", value, to=int(onnx_type(dtype)), dtype=dtype)
        if value in self._fake and value.shape is not None:
            fake = self._fake[value]
            self._fake[result] = fake.to(dtype)
        return result

    def result_type(self, *values: Any) -> torch.dtype:
        """The dtype in which torch computes, from the operands' examples (0-d tensors and numbers promote as in
        torch)."""
        # The shape of an intermediate result is unknown; promotion only needs to know that it has dimensions.
        examples = [
            self._fake.get(v, torch.empty(1, dtype=self._dtype[v], device="meta")) if isinstance(v, ir.Value) else v
            for v in values
        ]
        examples = [1 if isinstance(e, torch.SymInt) else e for e in examples]
        return reduce(torch.promote_types, (torch.result_type(examples[0], e) for e in examples[1:]))

    def promoted(self, *values: Any, dtype: torch.dtype | None = None) -> list[ir.Value]:
        """The operands cast to their common dtype."""
        wanted = dtype or self.result_type(*values)
        return [self.cast(v, wanted) for v in values]

    def reshape(self, value: ir.Value, sizes: Sequence[Any]) -> ir.Value:
        sizes = list(sizes)
        dynamic = [i for i, s in enumerate(sizes) if not isinstance(s, int)]
        # -1 can stand for one unknown size; it saves the Shape/Gather/Concat chain in the usual case of a dynamic
        # batch.
        if len(dynamic) == 1 and -1 not in sizes and 0 not in sizes:
            sizes[dynamic[0]] = -1
        allow_zero = 1 if 0 in sizes else None
        return self.op("Reshape", value, self.shape(sizes), allowzero=allow_zero)

    def axes(self, dims: Any, rank: int) -> list[int] | None:
        """Dimensions as a sorted list of non-negative ints; None means all."""
        if dims is None:
            return None
        return sorted(d + rank if d < 0 else d for d in listed(dims)) if rank else []

    def batched(
        self, value: ir.Value, spatial: int, convert: Callable[[ir.Value], ir.Value], rank: int | None = None
    ) -> ir.Value:
        """`convert(value)` for an operator over `spatial` dimensions after batch and channels. torch also takes a value
        without a batch and ONNX does not, so such a value gets one temporarily. Give `rank` if the value's shape is
        unknown."""
        if (self.rank(value) if rank is None else rank) == spatial + 2:
            return convert(value)
        first = self.constant([0])
        return self.op("Squeeze", convert(self.op("Unsqueeze", value, first)), first)

    def lined(self, value: ir.Value, convert: Callable[[ir.Value], Any], rank: int | None = None) -> Any:
        """`convert(value)` for an operator along a dimension. torch also takes a tensor without dimensions, which gets
        one temporarily. Give `rank` if the value's shape is unknown."""
        if self.rank(value) if rank is None else rank:
            return convert(value)
        first = self.constant([0])
        results = convert(self.op("Unsqueeze", value, first))
        back = [self.op("Squeeze", each, first) for each in (results if isinstance(results, tuple) else (results,))]
        return tuple(back) if isinstance(results, tuple) else back[0]

    def slices(self, value: ir.Value, sizes: Sequence[Any]) -> ir.Value:
        """The first `sizes` elements of each dimension."""
        if tuple(self.sizes(value)) == tuple(sizes):
            return value
        axes = list(range(len(sizes)))
        return self.op("Slice", value, self.shape([0] * len(sizes)), self.shape(sizes), self.constant(axes))

    def slice(self, value: ir.Value, axis: int, start: Any, stop: Any, step: int = 1) -> ir.Value:
        one = lambda n: self.shape([n])  # noqa: E731
        return self.op("Slice", value, one(start), one(stop), one(axis), one(step))


def _attribute(name: str, value: Any) -> ir.Attr:
    # ir.node() determines the type of an attribute by protocol checks, which takes most of the time for a node.
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    several = first is not value
    if isinstance(first, int):
        return ir.AttrInt64s(name, value) if several else ir.AttrInt64(name, int(value))
    if isinstance(first, float):
        return ir.AttrFloat32s(name, value) if several else ir.AttrFloat32(name, value)
    if isinstance(first, str) and not several:
        return ir.AttrString(name, value)
    return ir.convenience.convert_attribute(name, value)


def product(sizes: Iterable[Any]) -> Any:
    return reduce(operator.mul, sizes, 1)
