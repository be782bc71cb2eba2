"""Runs in the user's interpreter, with user code: standard library, torch and fxlib only.

``zygote`` is the process's first file; the server's side of the pipe is ``fxlens.host``.
"""
