"""torch's symbolic sizes, as ``torch.fx.experimental.symbolic_shapes`` has them.

Symbolic numbers are torch's: ``torch.export``, fake tensors and the compiler all make and read them, so there is one
kind of them, and every name here is torch's own object. Graphs that they occur in may be of either library.
"""

from typing import Any

from fxlib.interop.torch_side import experimental


def __getattr__(name: str) -> Any:
    return getattr(experimental("symbolic_shapes"), name)


def __dir__() -> list[str]:
    return dir(experimental("symbolic_shapes"))
