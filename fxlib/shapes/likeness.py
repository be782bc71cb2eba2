"""When two leaf modules yield the same metadata for the same inputs: they are of the same class, with equal attributes
and state.

Not their `repr`: that leaves out what some classes find unimportant, such as the ``reduction`` of a loss or
``batch_first`` of an attention, which decides shapes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import nn

from fxlib.ir.modules import is_altered
from fxlib.shapes.tensor_meta import described

__all__ = ["frozen", "likeness"]

# A recurrent layer lists its parameters once more.
_NOT_OF_ITS_OWN = (frozenset(vars(nn.Module())) - {"training"}) | {"_flat_weights", "_flat_weight_refs"}
_PLAIN = frozenset((bool, int, str, type(None)))


def likeness(module: nn.Module) -> tuple[Hashable, ...]:
    """A cache key for a leaf module: everything besides the inputs that decides its result's metadata. Of a module that
    is not torch's, or altered, the module itself.

    It may hold what cannot be hashed; then nothing can be told.
    """
    state = [(name, described(p)) for name, p in module.named_parameters()]
    state += [(name, described(b)) for name, b in module.named_buffers()]
    parts: list[Any] = []
    for each in module.modules():
        kind = type(each)
        if not kind.__module__.startswith("torch.nn.") or is_altered(each):
            return (module, tuple(m.training for m in module.modules()), *state)
        parts += (kind, *each._modules)
        for name, value in each.__dict__.items():
            if name not in _NOT_OF_ITS_OWN:
                parts += (name, type(value), value if type(value) in _PLAIN else frozen(value))
    return (*parts, *state)


def frozen(value: object) -> Hashable:
    """A value as part of a key in which 1, 1.0 and True differ, and lists and slices can be hashed."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[frozen(v) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(k, frozen(v)) for k, v in value.items()])
    if type(value) is slice:
        return ("slice", frozen(value.start), frozen(value.stop), frozen(value.step))
    return (type(value), value) if isinstance(value, (int, float)) else value  # type: ignore[return-value]
