"""The recipes, one file per family; importing this package fills the table."""

from fxlib.diagnosis.fixes.recipes import (
    assignment,
    control,
    imports,
    modules,
    numbers,
    randomness,
    settings,
    sizes,
    spreading,
    wrapping,
)

__all__ = [
    "assignment",
    "control",
    "imports",
    "modules",
    "numbers",
    "randomness",
    "settings",
    "sizes",
    "spreading",
    "wrapping",
]
