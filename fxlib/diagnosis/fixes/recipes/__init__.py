"""The recipes, one file per family; importing this package fills the table."""

from fxlib.diagnosis.fixes.recipes import (
    assignment,
    branches,
    capturing,
    compiling,
    control,
    distributions,
    imports,
    loops,
    modules,
    numbers,
    randomness,
    settings,
    sizes,
    spreading,
    types,
    wrapping,
)

__all__ = [
    "assignment",
    "branches",
    "capturing",
    "compiling",
    "control",
    "distributions",
    "imports",
    "loops",
    "modules",
    "numbers",
    "randomness",
    "settings",
    "sizes",
    "spreading",
    "types",
    "wrapping",
]
