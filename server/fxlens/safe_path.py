"""Imported first: removes the current folder from the path if only an empty entry of PYTHONPATH put it there.

A workspace must not shadow the standard library.
"""

import os
import sys

_entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if "" in _entries and len(_entries) > 1:
    _named = {os.path.realpath(each) for each in _entries if each}
    _here = os.path.realpath(os.getcwd())
    if _here not in _named:
        sys.path[:] = [each for each in sys.path if each and os.path.realpath(each) != _here]
