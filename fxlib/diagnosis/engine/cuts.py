"""Expressions that fail with an exception, left out of the next run, and what stands in their place."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.holes import hole
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.values import UNKNOWN, Unknown
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta, map_values

if TYPE_CHECKING:
    from fxlib.diagnosis.engine.session import Session
    from fxlib.diagnosis.report import Finding

__all__ = ["Cuts", "prepare"]

_prepared: list[bool] = []


_LOOKUPS = frozenset({"FX134", "FX135"})
_SEQUENCES = (list, tuple, nn.ModuleList, nn.Sequential, nn.ParameterList)
_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)
_FLUENT = frozenset(
    {"to", "cpu", "cuda", "type", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply"}
)
_MAPPINGS = (dict, nn.ModuleDict, nn.ParameterDict)


def _evaluated(node: Any, frame: Any) -> Any:
    """The value of a name with attributes and constant items after it."""
    if not all(isinstance(inner, _PLAIN) for inner in ast.walk(node)):
        raise _CannotTell
    code = compile(ast.Expression(node), "<container>", "eval", dont_inherit=True)
    return eval(code, frame.f_globals, frame.f_locals)


def _items(container: Any) -> list[Any]:
    if isinstance(container, _SEQUENCES):
        return list(container)
    return list(container.values()) if isinstance(container, _MAPPINGS) else []


def _acts(item: Any) -> bool:
    """Whether more can go wrong with ``item`` than with a number. Traced values are unknown either way."""
    if isinstance(item, (*_SEQUENCES, *_MAPPINGS)):
        return any(_acts(inner) for inner in _items(item))
    return not isinstance(item, Proxy) and (callable(item) or isinstance(item, torch.Tensor))


def _kind(item: Any) -> Any:
    return type(item) if isinstance(item, (nn.Module, torch.Tensor)) else id(item)


def prepare() -> bool:
    """Have torch load what its first fake tensor needs, which takes seconds. False when that was done before."""
    if _prepared:
        return False
    _prepared.append(True)
    with FakeTensorMode():
        torch.empty(1)
    return True


class _CannotTell(Exception):
    """An expression reads a value that is not known."""


class Cuts:
    """The places that were cut, in order; their numbers are what `fill` gets."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._cuts: list[tuple[Place, str]] = []
        self._misled: dict[int, Finding] = {}
        self._spans: set[Span] = set()
        self._tried: dict[int, int] = {}
        self._untried: set[int] = set()

    def turn(self) -> bool:
        """Let each lookup by a traced value that has given one of several things give the next one. False when all have
        been tried."""
        for number in self._untried:
            self._tried[number] += 1
        turned, self._untried = bool(self._untried), set()
        return turned

    def cut(self, place: Place, code: str, misled: Finding | None = None) -> bool:
        """Leave out ``place``, where the rule ``code`` was broken. False when that is not possible. With ``misled``,
        the finding that it misleads the trace, it gives what a normal run has."""
        if place.span in self._spans:
            return False
        self._spans.add(place.span)
        self._cuts.append((place, code))
        if misled is not None:
            self._misled[len(self._cuts) - 1] = misled
        return self.session.instrumentation.cut(place.span, len(self._cuts) - 1)

    def fill(self, number: int, kept: Any = None) -> Any:
        """The value at a cut: what the expression gives on the example values, or an unknown traced value."""
        place, code = self._cuts[number]
        if kept is None:
            if isinstance(place.node, (ast.Raise, ast.Assert)):
                self.session.guessed = True
            return None
        frame = sys._getframe(1)
        misled = self._misled.get(number)
        if misled is not None and misled.code == "FX216":
            raise AttributeError(f"'Tensor' object has no attribute in `{place.text}`")
        try:
            with self.session.aside():
                value = self._evaluate(place.node, frame)
        except Exception:
            self.session.guessed = True
            if misled is not None and code == misled.code:
                # It was told the wrong thing; of a truth value the right one is known all the same.
                value = kept()
                return not value if isinstance(value, bool) else value
            found = self._looked_up(number, place.node, frame) if code in _LOOKUPS else self._built(place.node, frame)
            return found[0] if found else self._unknown(code, UNKNOWN)
        return self._as_traced(value, code)

    def _looked_up(self, number: int, node: Any, frame: Any) -> list[Any]:
        """In a list of one, what stands for a module, a parameter or a function that a traced value picks out of a
        container: each kind in turn, for every one may have problems of its own. Empty for numbers and the like."""
        if not isinstance(node, ast.Subscript):
            return []
        try:
            with self.session.aside():
                container = _evaluated(node.value, frame)
                items = _items(container)
                whole = container[:] if isinstance(node.slice, ast.Slice) else None
        except Exception:
            return []
        kinds = list({_kind(item): item for item in reversed(items) if _acts(item)}.values())[::-1]
        if not kinds:
            return []
        if whole is not None:
            return [whole]
        turn = self._tried.setdefault(number, 0)
        if turn + 1 < len(kinds):
            self._untried.add(number)
        return [kinds[min(turn, len(kinds) - 1)]]

    def _built(self, node: Any, frame: Any) -> list[Any]:
        """In a list of one, a module of the kind that the expression makes, with 1 for every size that is not known:
        what is done with it may fail too. Empty for everything else."""
        if not isinstance(node, ast.Call):
            return []
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _FLUENT:
            # These give the module that they are called on.
            try:
                with self.session.aside():
                    owner = _evaluated(function.value, frame)
            except Exception:
                return self._built(function.value, frame)
            return [owner] if isinstance(owner, nn.Module) else []
        kind = self.session.constant(function, frame)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            return []
        try:
            with self.session.aside(), torch.device("meta"):
                given = [self._size(item, frame) for item in node.args]
                return [kind(*given, **{str(item.arg): self._size(item.value, frame) for item in node.keywords})]
        except Exception:
            return []

    def _size(self, node: ast.expr, frame: Any) -> Any:
        try:
            value = self._evaluate(node, frame)
        except Exception:
            built = self._built(node, frame)
            return built[0] if built else 1
        return 1 if isinstance(value, torch.Tensor) else value

    def _unknown(self, code: str, value: Any) -> Proxy:
        proxy = self.session.tracer.create_proxy("call_function", hole, (code, RULES[code].title), {})
        self.session.values.known[proxy.node] = value
        return proxy

    def _as_traced(self, value: Any, code: str) -> Any:
        def one(item: Any) -> Any:
            if item is FakeTensor:
                return torch.Tensor
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
