"""The constant that holds ``dynamic_shapes`` of a class beside it."""

from __future__ import annotations

import re


def shapes_constant(name: str) -> str:
    """``NET_SHAPES`` for ``Net``, ``MY_NET_SHAPES`` for ``MyNet``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2])
    return f"{words.upper()}_SHAPES"
