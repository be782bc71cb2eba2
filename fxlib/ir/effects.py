"""Operations with side effects, which dead-code elimination must keep."""

import contextlib
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from fxlib.ir.paths import read

if TYPE_CHECKING:
    from fxlib.ir.node import Node

_F = TypeVar("_F", bound=Callable[..., Any])


def _optional(path: str) -> list[Any]:
    """The object at a dotted path below ``torch`` as a list of one; empty if this build of torch lacks it."""
    with contextlib.suppress(AttributeError, RuntimeError):
        return [read(torch, path)]
    return []


_SIDE_EFFECTS = (
    "_assert",
    "_assert_async",
    "_C._set_grad_enabled",
    "amp._enter_autocast",
    "amp._exit_autocast",
    "ops.aten._assert_async.msg",
    "ops.aten._assert_scalar.default",
    "ops.aten._assert_tensor_metadata.default",
    "ops.aten.sym_constrain_range.default",
    "ops.aten.sym_constrain_range_for_size.default",
    "ops.profiler._record_function_enter",
    "ops.profiler._record_function_enter.default",
    "ops.profiler._record_function_enter_new",
    "ops.profiler._record_function_enter_new.default",
    "ops.profiler._record_function_exit",
    "ops.profiler._record_function_exit._RecordFunction",
    "ops.inductor.accumulate_grad_.default",
    "ops.inductor.resize_storage_bytes_.default",
    "ops.prims._sink_tokens.default",
)

_side_effectful_need_to_be_preserved_pre_dispatch: list[Callable[..., Any]] = [
    f
    for path in ("_C._set_grad_enabled", "amp.autocast_mode._enter_autocast", "amp.autocast_mode._exit_autocast")
    for f in _optional(path)
]

_side_effectful_functions: set[Callable[..., Any]] = {
    operator.setitem,
    *(f for path in _SIDE_EFFECTS for f in _optional(path)),
    *_side_effectful_need_to_be_preserved_pre_dispatch,
}


def has_side_effect(fn: _F) -> _F:
    """Register a function whose calls must stay in a graph even if nothing uses their value. Usable as a decorator."""
    _side_effectful_functions.add(fn)
    return fn


# These draw from the global generator, but as plain functions they carry no tag for it.
_RANDOM_FUNCTIONS = frozenset(
    f
    for name in (
        "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like",
        "randn", "randn_like", "randperm",
    )
    for f in _optional(name)
)  # fmt: skip


def is_impure(self: "Node", impure_random: bool = True) -> bool:
    """Whether the node has side effects, so that it must stay even if unused.

    Args:
        impure_random: count operators that draw random numbers.

    Raises:
        AssertionError: ``call_module`` in a graph whose module is missing or lacks the submodule.
    """
    if self._op == "call_function":
        return _is_impure_function(self._target, impure_random)
    return _calls_impure_module(self) if self._op == "call_module" else self._op in ("placeholder", "output")


def _is_impure_function(function: Callable[..., object], impure_random: bool) -> bool:
    schema = getattr(function, "_schema", None)
    writes = schema is not None and schema.is_mutable
    return (
        writes
        or (impure_random and getattr(function, "_nondeterministic_seeded", False))
        or function in _RANDOM_FUNCTIONS
        or function in _side_effectful_functions
        or _registered_with_torch(function)
    )


def _calls_impure_module(node: "Node") -> bool:
    module = node.graph.owning_module
    assert module is not None, "self.graph.owning_module not set for purity check"
    called = module.get_submodule(node._target)
    assert called is not None, f"Did not find expected submodule target {node._target}"
    return getattr(called, "_is_impure", False)


def _registered_with_torch(target: Callable[..., object]) -> bool:
    """Whether other code registered this function with torch.fx; registrations there count here too."""
    torch_node = sys.modules.get("torch.fx.node")
    return torch_node is not None and target in torch_node._side_effectful_functions
