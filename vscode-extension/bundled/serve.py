"""Starts the language server, or `fxlens record`, from the libraries that lie beside this file, whatever the
interpreter has installed."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "libs"))

from fxlens.cli import main

sys.exit(main(sys.argv[1:] if sys.argv[1:2] == ["record"] else ["serve", *sys.argv[1:]]))
