"""`assert_captures`: how a model should be captured, as one assertion in a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["NotCaptured", "assert_captures"]


class NotCaptured(AssertionError):
    """A model is not captured as it should be.  ``findings`` are the problems, as `fxlib.diagnose` has them."""

    def __init__(self, text: str, findings: Iterable[Any] = ()) -> None:
        super().__init__(text)
        self.findings = list(findings)


def assert_captures(model: Any, inputs: Any, *, fx: bool = True, leaf_modules: Iterable[str] = ()) -> None:
    """Fails unless the model is captured as it should be.  The model is afterwards as it was.

    Args:
        model: a module, in the mode (train or eval) that it is captured in.
        inputs: the arguments of forward: a tensor, a tuple, or a dict of keyword arguments.
        fx: torch.fx traces it, and its graph gives what the model gives for these inputs.
        leaf_modules: paths or class names that torch.fx keeps as leaves.

    Raises:
        NotCaptured: it is not; the text has the findings as ``fxlens check`` shows them.
    """
    __tracebackhide__ = True
    from fxlib import diagnose

    from . import of_fx
    from .text import failure_text

    failures: list[str] = []
    findings: list[Any] = []
    if fx:
        failure, found = of_fx.judge(model, inputs, diagnose(model, inputs, leaf_modules=leaf_modules))
        failures += [failure] if failure else []
        findings += found
    if failures:
        raise NotCaptured(failure_text(model, failures, findings), findings)
