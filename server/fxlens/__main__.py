"""``python -m fxlens`` is the ``fxlens`` command."""

import os
import sys

# With -m the current folder comes first on the path: a workspace must not shadow the standard library.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    _HERE = os.getcwd()
except FileNotFoundError:
    _HERE = ""  # the folder was removed
if sys.path[0] in ("", _HERE) and os.path.realpath(_HOME) != os.path.realpath(_HERE or os.sep):
    sys.path.pop(0)
import fxlens.safe_path  # noqa: E402, F401
from fxlens.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
