"""What Python warns of in a text that is parsed or compiled: that is done many times here with each text of the user's,
also once user code has set filters of its own."""

from __future__ import annotations

import re
import warnings
from typing import Any

_FILE = re.compile(r".*[/\\<]")
"""What stands for the module of a text: its path, or a name such as ``<unknown>``.  Modules have none of these."""
_FILTERS: list[Any] = [
    ("ignore", None, SyntaxWarning, _FILE, 0),
    ("ignore", re.compile("invalid "), DeprecationWarning, _FILE, 0),  # escapes and literals, up to Python 3.11
]


def leave_out() -> None:
    """These are neither shown nor raised, whatever the filters that are there.  What else was shown once is not shown
    again, as it would be if the filters were changed by the functions of ``warnings``."""
    if [*warnings.filters[: len(_FILTERS)]] != _FILTERS:
        others = [each for each in warnings.filters if each not in _FILTERS]
        warnings.filters = [*_FILTERS, *others]
