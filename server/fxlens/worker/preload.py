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

for name in (
    "fxlib.diagnosis.comparison.of_example",
    "fxlib.diagnosis.fixes.fix_all",
    "fxlib.diagnosis.fixes.together",
    "fxlib.diagnosis.lazy_layers",
    "numpy.random",
    "pty",
    "resource",
    "torch._functorch.config",
    "torch.utils.model_zoo",
):
    with contextlib.suppress(ImportError):  # of systems; trials of arguments seed numpy and replace the last
        importlib.import_module(name)
