"""Imports modules that jobs import in functions, so that forks of this process have them."""

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

for name in ("numpy.random", "torch.utils.model_zoo", "torch._functorch.config"):
    with contextlib.suppress(ImportError):  # trials of arguments seed the first and replace the second
        importlib.import_module(name)
