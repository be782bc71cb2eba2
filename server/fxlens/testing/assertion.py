"""`assert_captures`: how a model should be captured, as one assertion in a test."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["NotCaptured", "assert_captures"]


class NotCaptured(AssertionError):
    """A model is not captured as required. ``findings`` are the problems, as from `fxlib.diagnose`."""

    def __init__(self, text: str, findings: Iterable[Any] = ()) -> None:
        super().__init__(text)
        self.findings = list(findings)


def assert_captures(
    model: Any,
    inputs: Any,
    *,
    fx: bool = True,
    export: bool = False,
    breaks: int | None = None,
    recompiles: int | None = None,
    dynamic: bool | Mapping[str, Iterable[int]] = False,
    more: Iterable[Any] = (),
    leaf_modules: Iterable[str] | None = None,
    tracer: Callable[[], Any] | None = None,
) -> None:
    """Fails unless the model is captured as required.  The model and the random generators of torch, Python and NumPy
    are left as they were.

    With ``breaks`` or ``recompiles``, torch's compiler is reset (`torch.compiler.reset`), since earlier compilations
    would count. What was compiled before is compiled again at its next call.

    Without ``leaf_modules`` or ``tracer``, the project's are used: ``[tool.fxlens]`` in the current folder or above.

    Args:
        model: a module, in the mode (train or eval) that it is captured in.
        inputs: the arguments of forward: a tensor, a tuple, or a dict of keyword arguments.
        fx: torch.fx traces it, and the graph gives the same result as the model for these inputs.
        export: torch.export accepts it.
        breaks: torch.compile has at most this many graph breaks. None: not checked.
        recompiles: torch.compile recompiles at most this many times in three calls and with ``more``. None: not
            checked.
        dynamic: torch.export keeps every size dynamic that the model itself accepts in other sizes; or, by parameter,
            the named dimensions, ``{"x": (0,)}``, which the model has to accept in other sizes.
        more: further inputs with the same structure.
        leaf_modules: paths or class names that torch.fx keeps as leaves.
        tracer: makes the tracer to use, such as a subclass of torch.fx.Tracer; it also decides on leaf modules.

    Raises:
        ImportError: the project's tracer cannot be imported; other errors of importing it are raised unchanged.
        NotCaptured: a requirement is not met; the text has the findings as ``fxlens check`` shows them.
    """
    __tracebackhide__ = True
    from fxlib import diagnose

    from . import of_fx, of_others, of_project
    from .text import failure_text

    failures: list[str] = []
    findings: list[Any] = []
    with _random_kept():
        if fx:
            leaves, by = of_project.tracing(leaf_modules, tracer)
            failure, found = of_fx.judge(model, inputs, diagnose(model, inputs, leaf_modules=leaves, tracer=by))
            failures += [failure] if failure else []
            findings += found
        said, found = of_others.judge(model, inputs, more, of_others.Wanted(export, breaks, recompiles, dynamic))
        failures += said
        findings += found
        if failures:
            raise NotCaptured(failure_text(model, failures, findings), findings)


@contextlib.contextmanager
def _random_kept() -> Iterator[None]:
    """Restores the random generators at the end: models run with seeds of ours."""
    import torch

    numpy = sys.modules.get("numpy")
    before = random.getstate(), numpy and numpy.random.get_state()
    # A device that has no context yet has drawn nothing.
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(before[0])
        if numpy is not None:
            numpy.random.set_state(before[1])
        elif (imported := sys.modules.get("numpy")) is not None:
            imported.random.seed()
