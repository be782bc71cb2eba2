"""Everything that fxlib takes from torch.fx: the classes of its values and the state that both libraries share.

It lets code that was written for torch.fx behave the same under our tracer: functions that were registered with
``torch.fx.wrap`` stay leaf functions, and ``torch.fx``'s ``is_fx_tracing`` is True.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
import torch.fx._symbolic_trace as _torch_trace
import torch.fx.traceback as torch_traceback_state

from fxlib.ir import node as _node

_node._node_types = (_node.Node, torch.fx.Node)

#: The class of torch.fx's proxies; ours report it as their class.
foreign_proxy = torch.fx.Proxy
#: The class of its graphs.
foreign_graph = torch.fx.Graph

__all__ = [
    "Undecided",
    "experimental",
    "force_recompile",
    "foreign_graph",
    "foreign_originals",
    "foreign_proxy",
    "foreign_tracing",
    "foreign_wrapped_functions",
    "foreign_wrapped_methods",
    "free_symbols",
    "set_foreign_tracing",
    "size_decisions",
    "sizes_undecided",
    "symbolic_tensors",
    "torch_traceback_state",
]


def foreign_wrapped_functions() -> dict[tuple[int, str], dict[str, Any]]:
    """Functions registered with ``torch.fx.wrap``: ``(id of the module's globals, name) -> globals``. A live view."""
    return _torch_trace._wrapped_fns_to_patch


def foreign_wrapped_methods() -> list[tuple[type, str]]:
    """Methods that torch registered as leaf methods: ``(class, name)``. A live view."""
    return _torch_trace._wrapped_methods_to_patch


def set_foreign_tracing(value: bool) -> bool:
    """Set what ``torch.fx``'s ``is_fx_tracing`` answers; returns the former value."""
    before = _torch_trace._is_fx_tracing_flag
    _torch_trace._is_fx_tracing_flag = value
    return before


@contextlib.contextmanager
def size_decisions() -> Iterator[dict[tuple[Any, str], Any]]:
    """Within it, whatever makes a plain value of an expression of symbolic sizes is recorded: the expression and the
    file that asked -> the boolean or number. torch's own guards lack those that it decides by assuming that a dynamic
    size is not 1."""
    found = dict[tuple[Any, str], Any]()

    def recording(environment: Any, expression: Any, evaluate: Callable[[], Any]) -> Any:
        result = evaluate()
        if expression.free_symbols:
            if expression.is_Relational or expression.is_Boolean:
                plain: Any = bool(result)
            else:
                plain = int(result) if result == int(result) else float(result)
            found[expression, _asking()] = plain
        return result

    with _evaluating(recording):
        yield found


class Undecided(Exception):
    """A value was asked of sizes that may change; the text is the expression."""


@contextlib.contextmanager
def sizes_undecided(within: str) -> Iterator[None]:
    """Keep the files of a folder from deciding by the example's sizes: two that are not known to be equal are
    different, and anything else that depends on them raises `Undecided`."""
    from sympy import Eq, Ne, false, true

    def deciding(environment: Any, expression: Any, evaluate: Callable[[], Any]) -> Any:
        if not expression.free_symbols or not _asking().startswith(within):
            return evaluate()
        known = environment._maybe_evaluate_static(expression, axioms=())
        if known is None and isinstance(expression, (Eq, Ne)):
            known = true if isinstance(expression, Ne) else false
        if known is None:
            raise Undecided(str(expression))
        return known

    with _evaluating(deciding):
        yield


@contextlib.contextmanager
def _evaluating(instead: Callable[[Any, Any, Callable[[], Any]], Any]) -> Iterator[None]:
    """Within it, torch's evaluation of an expression of sizes is `instead` of the environment, the expression, and
    torch's evaluation."""
    from torch.fx.experimental import symbolic_shapes

    kind: Any = symbolic_shapes.ShapeEnv
    evaluate = kind.evaluate_expr

    def evaluating(self: Any, expression: Any, *args: Any, **kwargs: Any) -> Any:
        return instead(self, expression, lambda: evaluate(self, expression, *args, **kwargs))

    kind.evaluate_expr = evaluating
    try:
        yield
    finally:
        kind.evaluate_expr = evaluate


def _asking() -> str:
    """The file that asks for the value of an expression of sizes."""
    own = (os.path.dirname(experimental("symbolic_shapes").__file__), torch.__file__, __file__)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return frame.f_code.co_filename


def symbolic_tensors(values: Any, dims: Any) -> tuple[Any, list[Any]]:
    """Fake tensors whose named dimensions are symbolic integers of torch's own shape environment.

    Args:
        values: example inputs; what is not a tensor is passed through.
        dims: per value, the dimensions that may change. Two of equal size become one symbol only if an operation
            requires them to be equal; the height and width of a square image may stay two.

    Returns:
        the ``FakeTensorMode`` they live in, and the inputs.
    """
    import torch
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    # torch specializes sizes 0 and 1, so the hint of a dynamic size is a prime that no static size is likely to equal.
    # Larger sizes get larger primes, so that comparisons of sizes go as they do with the example.
    primes = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157)
    tensors = [(value, some) for value, some in zip(values, dims, strict=True) if isinstance(value, torch.Tensor)]
    hints = dict(zip(sorted({value.shape[d] for value, some in tensors for d in some}), primes, strict=False))
    made = []
    for index, (value, dynamic) in enumerate(zip(values, dims, strict=True)):
        if not isinstance(value, torch.Tensor):
            made.append(value)
            continue
        chosen = {d % value.dim() for d in dynamic}
        sizes = [hints[s] if i in chosen else s for i, s in enumerate(value.shape)]
        kinds = [DimDynamic.DYNAMIC if i in chosen else DimDynamic.STATIC for i in range(value.dim())]
        hollow = torch.empty(sizes, dtype=value.dtype, device=value.device)
        made.append(
            mode.from_tensor(
                hollow,
                symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds),
                source=ConstantSource(f"input_{index}"),
            )
        )
    return mode, made


def foreign_tracing() -> bool:
    """Whether a trace by torch.fx (or by us) is going on, as torch.fx sees it."""
    return _torch_trace._is_fx_tracing_flag


def force_recompile(module: Any) -> None:
    """Compile torch.fx's lazily compiled graph modules, so that their forward can be traced."""
    from torch.fx._lazy_graph_module import _LazyGraphModule

    _LazyGraphModule.force_recompile(module)


def free_symbols(value: Any, *, single: bool = False) -> set[Any]:
    """The symbols in the sizes of a fake tensor or in a symbolic number; none for anything else.

    Args:
        value: what is known about a node's value, such as ``node.meta["val"]``.
        single: return only symbolic numbers that are themselves a symbol, so that a graph can use them to name it.
    """
    from torch.fx.experimental.symbolic_shapes import free_symbols as symbols_of

    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        expression = value.node.expr
        if single:
            return {expression} if getattr(expression, "is_Symbol", False) else set()
        return set(expression.free_symbols)
    if single or not isinstance(value, torch.Tensor):
        return set()
    return set(symbols_of(value))


def experimental(module: str) -> Any:
    """The module of that name in ``torch.fx.experimental``: symbolic numbers and the recording of ATen operators are
    part of torch, not of a graph library.
    """
    return importlib.import_module(f"torch.fx.experimental.{module}")


@contextlib.contextmanager
def foreign_originals(call: Any, getattr_: Any) -> Iterator[None]:
    """The unpatched ``Module.__call__`` and ``__getattr__`` as torch.fx's tracer knows them."""
    before = _torch_trace._orig_module_call, _torch_trace._orig_module_getattr
    _torch_trace._orig_module_call, _torch_trace._orig_module_getattr = call, getattr_
    try:
        yield
    finally:
        _torch_trace._orig_module_call, _torch_trace._orig_module_getattr = before
