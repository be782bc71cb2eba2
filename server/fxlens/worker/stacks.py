"""``inspect.stack()``, which registries call to learn who asks: quick also where many modules are imported."""

from __future__ import annotations

import inspect
from typing import Any


def make_quick() -> None:
    """A frame of Python's import system, or of text that was never a file, has no module: `inspect` need not look
    through all modules for it each time."""
    getmodule = inspect.getmodule
    if getattr(getmodule, "_fxlens_quick", False):
        return

    def quick(object: Any, _filename: Any = None) -> Any:
        if inspect.isframe(object) and object.f_code.co_filename[:1] == "<":
            return None
        return getmodule(object, _filename)

    quick._fxlens_quick = True  # type: ignore[attr-defined]
    inspect.getmodule = quick
