"""Comparing models of a file that are given as expressions."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxlib.diagnosis.comparison.compare import CannotCopy, copies, parting
from fxlib.diagnosis.comparison.parts import Kind, kind_of
from fxlib.diagnosis.comparison.sides import Given, Made, Tracing, calls_of
from fxlib.diagnosis.fixes.example import Example, Lacking, with_concrete
from fxlib.diagnosis.report import Finding
from fxlib.ir.strict import STRICT

__all__ = ["Comparing"]

log = logging.getLogger(__name__)


class Comparing:
    """Compares models of one file, one after the other. A model like one that already ran is not compared again, nor
    one like a part of another model that returned the same values there as in the graph.

    Args:
        namespace: names for the expressions besides ``torch`` and ``nn``.
        loaded: returns another one, from a new execution of the file.
        tracing: how graphs are traced.
        lacking: see `Example`.
        largest: the most parameters of a model that is compared.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        loaded: Callable[[], AbstractContextManager[dict[str, Any]]],
        tracing: Tracing,
        lacking: Lacking,
        largest: int,
    ) -> None:
        self.namespace = namespace
        self.loaded = loaded
        self.tracing = tracing
        self.lacking = lacking
        self.largest = largest
        self._known: dict[bool, set[Kind]] = {False: set(), True: set()}
        """The kinds; for True, those that were compared in training."""

    def compare(self, construct: str, inputs: str, training: bool = False) -> Finding | None:
        """Where the graph of the model differs from it, in ``training`` also in its gradients; None if it does not, or
        they cannot be compared."""
        example = Example(construct, inputs, 0.0, self.lacking)
        try:
            model, calls, tracing = self._made(example, self.namespace)
            if kind_of(model) in self._known[training] or self._is_large(model):
                return None

            @contextlib.contextmanager
            def again() -> Iterator[Made]:
                with self.loaded() as namespace:
                    made, own, _ = self._made(example, namespace)
                    yield Made(made, own)

            known, found = parting(copies(model, calls, tracing), again, tracing, training)
        except CannotCopy:
            return None
        except (Exception, SystemExit) as error:
            if _is_of_the_comparison(error):
                if STRICT:
                    raise
                log.exception("%s could not be compared with its graph", construct)
            return None  # the trace has reported other errors, or they are unrelated to the graph
        self._known[False] |= known
        if training:
            self._known[True] |= known
        return found

    def _made(self, example: Example, namespace: dict[str, Any]) -> tuple[nn.Module, tuple[Given, Given], Tracing]:
        names = {"torch": torch, "nn": nn, **namespace}
        model, first = example.made(names)
        other = example.arguments(names, 1)
        assert first is not None and other is not None
        concrete = first[1].pop("concrete_args", None) or {}
        other[1].pop("concrete_args", None)
        calls = calls_of(with_concrete(model, first, concrete), with_concrete(model, other, concrete))
        return model, calls, replace(self.tracing, concrete=concrete)

    def _is_large(self, model: nn.Module) -> bool:
        return sum(each.numel() for each in model.parameters() if not is_lazy(each)) > self.largest


def _is_of_the_comparison(error: BaseException) -> bool:
    """Whether it was raised by the comparison itself, not by user code or torch."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == os.path.dirname(__file__)
