"""Source snippets as importable modules, so that their findings have real files and lines."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import signal
import sys
from types import ModuleType
from typing import Any

import torch

import fxlib
from fxlib.diagnosis import Report

_numbers = itertools.count()


def load(text: str, folder: Any) -> ModuleType:
    """The module of ``text``, written to a file in ``folder``."""
    name = f"fxlens_snippet_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def diagnose(
    text: str, folder: Any, inputs: str | None = "(torch.randn(2, 3),)", options: str = "{}", seen: str = "diagnose"
) -> Report:
    """The report on ``Net()`` of a snippet; ``inputs`` and ``options`` are expressions. With what `fxlib.compare` says,
    where that is how it is to be ``seen``."""
    module = load(text, folder)
    scope = {"torch": torch, "fxlib": fxlib, **vars(module)}
    example = None if inputs is None else eval(inputs, scope)
    report = fxlib.diagnose(module.Net(), example, **eval(options, scope))
    if seen == "compare" and (found := fxlib.compare(module.Net(), example, **eval(options, scope))) is not None:
        report.findings.append(found)
    return report


def torch_error(module: ModuleType, options: str = "{}") -> Exception | None:
    """What torch.fx itself raises on ``Net()``; TimeoutError if it takes more than three seconds of the processor."""

    def end(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, 3, 0.1)  # again where somebody takes the first one
    try:
        torch.fx.symbolic_trace(module.Net(), **eval(options, {"torch": torch, **vars(module)}))
    except Exception as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None
