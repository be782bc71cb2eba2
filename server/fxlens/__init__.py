"""FX Lens: the language server and the command line.

Nothing here imports torch or fxlib, except functions of ``worker``, ``jobs`` and ``passes`` that run in the user's
interpreter.
"""

__version__ = "0.1.0"
