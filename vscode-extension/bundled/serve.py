"""Starts the language server from the libraries that lie beside this file, whatever the interpreter has installed."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "libs"))

from fxlens.cli import main

sys.exit(main(["serve", *sys.argv[1:]]))
