"""torch.fx in and out: ``to_torch_fx`` and ``from_torch_fx``. No other part of fxlib imports torch.fx.

``torch_side`` is below everything (what the tracer takes from torch.fx), ``convert`` above graphs and modules, so
nothing is imported here until it is named.
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
