"""Which operations do more than give a value, so that dead-code elimination must leave them."""

import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from fxlib.ir.node import Node

_F = TypeVar("_F", bound=Callable[..., Any])


def _optional(path: str) -> list[Any]:
    """The object at a dotted path below ``torch``, in a list; none where this build of torch lacks it."""
    found: Any = torch
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, RuntimeError):
            return []
    return [found]


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


# These draw from the global generator, but being plain functions they carry no tag that says so.
_RANDOM_FUNCTIONS = frozenset(
    f
    for name in (
        "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like",
        "randn", "randn_like", "randperm",
    )
    for f in _optional(name)
)  # fmt: skip


def is_impure_call(node: "Node", impure_random: bool = True) -> bool:
    """Whether ``node`` does more than give a value; see ``Node.is_impure``."""
    op, target = node._op, node._target
    if op == "call_function":
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.is_mutable:
            return True
        if impure_random and getattr(target, "_nondeterministic_seeded", False):
            return True
        return target in _RANDOM_FUNCTIONS or target in _side_effectful_functions or _registered_with_torch(target)
    if op == "call_module":
        module = node.graph.owning_module
        assert module is not None, "self.graph.owning_module not set for purity check"
        submodule = module.get_submodule(target)
        assert submodule is not None, f"Did not find expected submodule target {target}"
        return getattr(submodule, "_is_impure", False)
    return op in ("placeholder", "output")


def _registered_with_torch(target: Any) -> bool:
    """Whether third-party code told torch.fx of this function; every registration there is honoured here."""
    torch_node = sys.modules.get("torch.fx.node")
    return torch_node is not None and target in torch_node._side_effectful_functions
