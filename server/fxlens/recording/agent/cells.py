"""Runs the code cells of a notebook one after the other in one namespace, as its kernel would.

``python cells.py CELLS NOTEBOOK``: CELLS is a file with each cell's number and Python text.  Standard library only,
since the interpreter is the notebook's.
"""

import ast
import asyncio
import codeop
import json
import linecache
import os
import sys
import traceback
import types


def run(cells: str, notebook: str) -> None:
    """Runs the cells. If one raises, the process ends and later cells are not run."""
    with open(cells, encoding="utf-8") as file:
        programs = json.load(file)
    sys.argv, sys.path[0] = [notebook], ""
    os.environ.setdefault("MPLBACKEND", "agg")  # do not open windows
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    # A kernel's has no `__file__`, which processes that are spawned would execute. VS Code gives the path this name.
    main.__dict__.update(__vsc_ipynb_file__=notebook, display=print, get_ipython=lambda: None)
    compiled = codeop.Compile()  # future imports stay in effect
    compiled.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    loop: asyncio.AbstractEventLoop | None = None
    for number, text in programs:
        name = f"{notebook}, cell {number}"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        try:
            waiting = eval(compiled(text, name, "exec"), main.__dict__)
            if waiting is not None:  # a cell with `await` in it
                loop = loop or asyncio.new_event_loop()
                loop.run_until_complete(waiting)
        except Exception as error:
            traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            sys.exit(1)


if __name__ == "__main__":
    run(*sys.argv[1:])
