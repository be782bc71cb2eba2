"""Conversion from and to torch.fx: ``to_torch_fx`` and ``from_torch_fx``. No other part of fxlib imports torch.fx.

Imports are lazy: the tracer needs ``torch_side``, while ``convert`` needs graphs and modules.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxlib.interop.convert import from_torch_fx, from_torch_graph, to_torch_fx, to_torch_graph

__all__ = ["from_torch_fx", "from_torch_graph", "to_torch_fx", "to_torch_graph"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from fxlib.interop import convert

        return getattr(convert, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
