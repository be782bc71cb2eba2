"""Import statements for the globals of generated code that is stored outside of this process."""

import itertools
import types
from typing import Any

from torch.package import Importer

from fxlib.ir.names import _custom_builtins

__all__: list[str] = []


def _format_import_statement(name: str, obj: object, importer: Importer) -> str:
    """The statement that gives ``obj`` the name ``name`` in a fresh module."""
    if isinstance(obj, types.ModuleType) and name == obj.__name__ == "fxlib":
        return "import fxlib._symbolic_trace"
    known = _custom_builtins.get(name)
    return "from {} import {} as {}".format(*importer.get_name(obj), name) if known is None else known.import_str


def _format_import_block(globals: dict[str, Any], importer: Importer) -> str:
    """Import statements for all globals of generated code.

    Args:
        globals: names and what they stand for.
        importer: a ``torch.package`` importer, which knows where objects are found.
    """
    needed = itertools.starmap(_format_import_statement, ((*entry, importer) for entry in globals.items()))
    return "\n".join(sorted(set(needed)))
