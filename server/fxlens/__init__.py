"""FX Lens: the language server and the command line.

Nothing here imports torch or fxlib, except the files under ``worker`` that say so: they run in the user's interpreter.
"""

__version__ = "0.1.0"
