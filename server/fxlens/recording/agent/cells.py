"""Runs the code cells of a notebook one after the other in one namespace, as its kernel would.

``python cells.py CELLS NOTEBOOK``: CELLS is a file with the number and the Python text of each.  Standard library
only, since the interpreter is the notebook's.
"""

import codeop
import json
import linecache
import os
import sys
import traceback
import types


def run(cells: str, notebook: str) -> None:
    """Ends the process where a cell raises; those after it are not run."""
    with open(cells, encoding="utf-8") as file:
        programs = json.load(file)
    sys.argv, sys.path[0] = [notebook], ""
    os.environ.setdefault("MPLBACKEND", "agg")  # where nobody looks, no window is opened
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__file__=notebook, display=print)
    compiled = codeop.Compile()  # of which the imports from the future stay
    for number, text in programs:
        name = f"{notebook}, cell {number}"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        try:
            exec(compiled(text, name, "exec"), main.__dict__)
        except Exception as error:
            traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            sys.exit(1)


if __name__ == "__main__":
    run(*sys.argv[1:])
