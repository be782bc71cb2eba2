"""Expressions that fail with an exception, left out of the next run, and what stands in their place."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fxlib.diagnosis.holes import hole
from fxlib.diagnosis.place import Place
from fxlib.diagnosis.rules import RULES
from fxlib.diagnosis.values import UNKNOWN, Unknown
from fxlib.proxy import Proxy
from fxlib.shapes import TensorMeta, map_values
from fxlib.span import Span

if TYPE_CHECKING:
    from fxlib.diagnosis.session import Session

__all__ = ["Cuts"]


class _CannotTell(Exception):
    """An expression reads a value that is not known."""


class Cuts:
    """The places that were cut, in order; their numbers are what `fill` gets."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._cuts: list[tuple[Place, str]] = []
        self._spans: set[Span] = set()

    def cut(self, place: Place, code: str) -> bool:
        """Leave out ``place``, where the rule ``code`` was broken. False when that is not possible."""
        if place.span in self._spans:
            return False
        self._spans.add(place.span)
        self._cuts.append((place, code))
        return self.session.instrumentation.cut(place.span, len(self._cuts) - 1)

    def fill(self, number: int, kept: Any = None) -> Any:
        """The value at a cut: what the expression gives on the example values, or an unknown traced value."""
        place, code = self._cuts[number]
        if kept is None:
            if isinstance(place.node, (ast.Raise, ast.Assert)):
                self.session.guessed = True
            return None
        frame = sys._getframe(1)
        try:
            with self.session.aside():
                value = self._evaluate(place.node, frame)
        except Exception:
            self.session.guessed = True
            return self._unknown(code, UNKNOWN)
        return self._as_traced(value, code)

    def _unknown(self, code: str, value: Any) -> Proxy:
        proxy = self.session.tracer.create_proxy("call_function", hole, (code, RULES[code].title), {})
        self.session.values.known[proxy.node] = value
        return proxy

    def _as_traced(self, value: Any, code: str) -> Any:
        def one(item: Any) -> Any:
            return self._unknown(code, TensorMeta.of(item)) if isinstance(item, torch.Tensor) else item

        return map_values(value, one)

    def _evaluate(self, node: Any, frame: Any) -> Any:
        """Run the expression with example values in place of traced ones; tensors are fake."""
        node = node.value if isinstance(node, (ast.Assign, ast.Expr)) else node
        if isinstance(node, ast.AugAssign) or not isinstance(node, ast.expr):
            raise _CannotTell
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        scope = dict(frame.f_globals)
        local = frame.f_locals
        for name in names & local.keys():
            scope[name] = map_values(local[name], lambda item: self._real(item, mode))
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        # A function, so that it does not look like the top level of a module.
        function = ast.copy_location(ast.Lambda(args=empty, body=node), node)
        code = compile(ast.Expression(function), "<cut>", "eval", dont_inherit=True)
        with mode:
            return eval(code, scope)()

    def _real(self, item: Any, mode: FakeTensorMode) -> Any:
        if not isinstance(item, Proxy):
            return item
        value = self.session.values.of(item.node)

        def one(part: Any) -> Any:
            if type(part) is Unknown:
                raise _CannotTell
            if type(part) is TensorMeta:
                with mode:
                    return torch.empty_strided(part.shape, part.strides, dtype=part.dtype, device=part.device)
            return part

        return map_values(value, one)
