"""The library of an engine that has TensorRT's API: whether it is installed, its version, and NVIDIA's driver.

Nothing native is loaded here.
"""

from __future__ import annotations

import ctypes.util
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


@dataclass(frozen=True)
class Library:
    """TensorRT or TensorRT-RTX."""

    engine: str
    """The engine's name."""
    label: str
    modules: tuple[str, ...]
    """Possible names of its module."""
    packages: tuple[str, ...]
    """The packages to install with pip; the last one has its version."""

    @property
    def module(self) -> str | None:
        """The module's name, or None if it is not installed."""
        return next((name for name in self.modules if find_spec(name) is not None), None)

    @property
    def version(self) -> str:
        try:
            return version(self.packages[-1])
        except PackageNotFoundError:
            return "?"

    def missing(self) -> str | None:
        """None if it is installed; otherwise a sentence that says how to install it."""
        if self.module is None:
            return f"its Python package is not installed; `pip install {' '.join(self.packages)}` adds it"
        return None


def has_driver() -> bool:
    """Whether NVIDIA's driver library is on this machine; must be checked before any TensorRT library is loaded."""
    name = "nvcuda" if sys.platform == "win32" else "cuda"
    return ctypes.util.find_library(name) is not None
