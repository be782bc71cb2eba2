"""What runs in the user's interpreter, beside user code: standard library, torch and fxlib only.

``zygote`` is the process's first file; the server's side of the pipe is ``fxlens.host``.
"""
