"""Imports what jobs import in their functions: in a fork of this process it is there already."""

from __future__ import annotations

import contextlib
import importlib

from fxlens import jobs

from . import (  # noqa: F401
    assumed,
    construct,
    costs,
    errors,
    guess,
    job,
    kept,
    models,
    one_model,
    problems,
    render,
    symbolic,
    tracebacks,
    user_file,
    warmup,
)

for kind in jobs.KINDS:
    jobs.named(kind)

with contextlib.suppress(ImportError):  # trials of arguments seed it
    importlib.import_module("numpy.random")
