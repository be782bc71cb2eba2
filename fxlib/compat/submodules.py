"""Submodules that are imported when a program first names them, as in ``fxlib.passes.shape_prop.ShapeProp``.

``import torch.fx`` brings its passes along, so programs name them without an import of their own. Importing them all
would make ``import fxlib`` slow.
"""

import importlib
from types import ModuleType

__all__: list[str] = []


def submodule(package: str, name: str) -> ModuleType:
    """The module ``name`` of ``package``, imported.

    Raises:
        AttributeError: there is none.
    """
    full = f"{package}.{name}"
    if not name.startswith("__"):
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            # A module that exists but lacks a dependency raises its own error.
            if error.name != full:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
