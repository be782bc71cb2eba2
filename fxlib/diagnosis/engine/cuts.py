"""Cuts: failing expressions that are left out of the next run, and the values that replace them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.choices import Choices
from fxlib.diagnosis.engine.frames import constant
from fxlib.diagnosis.engine.holes import hole
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.values import PLAIN, UNKNOWN, Unknown
from fxlib.diagnosis.report import Finding
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta, map_values
from fxlib.shapes.fake import fake_mode

__all__ = ["Cut", "Cuts", "Filling", "prepare"]

_prepared: list[bool] = []


_SEQUENCES = (list, tuple, nn.ModuleList, nn.Sequential, nn.ParameterList)
_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)
_FLUENT = frozenset(
    {"to", "cpu", "cuda", "type", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply"}
)
_MAPPINGS = (dict, nn.ModuleDict, nn.ParameterDict)


_Key = tuple[Any, ...]
_DATA = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device))


def _is_data(value: Any) -> bool:
    """Whether a value is data alone, which may be given twice."""
    if type(value) in (tuple, list):
        return all(map(_is_data, value))
    return type(value) in _DATA or type(value) in (TensorMeta, torch.Size)


def _evaluated(node: Any, frame: Any) -> Any:
    """The value of a dotted name with constant subscripts."""
    if not all(isinstance(inner, _PLAIN) for inner in ast.walk(node)):
        raise _CannotTell
    code = compile(ast.Expression(node), "<container>", "eval", dont_inherit=True)
    return eval(code, frame.f_globals, frame.f_locals)


def _items(container: Any) -> list[Any]:
    if isinstance(container, _SEQUENCES):
        return list(container)
    return list(container.values()) if isinstance(container, _MAPPINGS) else []


def _acts(item: Any) -> bool:
    """Whether ``item`` can cause further problems, unlike a number. Traced values are unknown either way."""
    if isinstance(item, (*_SEQUENCES, *_MAPPINGS)):
        return any(_acts(inner) for inner in _items(item))
    return not isinstance(item, Proxy) and (callable(item) or isinstance(item, torch.Tensor))


def _kind(item: Any) -> Any:
    return type(item) if isinstance(item, (nn.Module, torch.Tensor)) else id(item)


def prepare() -> bool:
    """Make torch load the modules for its first fake tensors, which is slow. False when that was done before."""
    if _prepared:
        return False
    _prepared.append(True)
    with fake_mode():
        torch.empty(1, 1).permute(1, 0)  # makes torch load its distributed tensors
    return True


class _NoKey(Exception):
    """An expression reads a value that cannot be compared with that of another time."""


class _CannotTell(Exception):
    """An expression reads a value that is not known."""


class Cut(NamedTuple):
    """A place that is left out because it violates the rule ``code``. With ``misled``, the finding that it misleads the
    trace, it gets its value from a normal run. ``plain`` if it reads no traced value."""

    place: Place
    code: str
    misled: Finding | None = None
    plain: bool = False


class Cuts:
    """The places that were cut, in order; the rewritten code has their numbers instead."""

    def __init__(self, instrumentation: Instrumentation) -> None:
        self._instrumentation = instrumentation
        self._cuts: list[Cut] = []
        self._spans: set[Span] = set()
        self.values: dict[_Key, Any] = {}
        """What expressions gave, by themselves and by all that they read: it is the same in all runs."""

    def __getitem__(self, number: int) -> Cut:
        return self._cuts[number]

    def has_plain(self, span: Span) -> bool:
        """Whether ``span`` contains a cut that reads no traced value."""
        return any(each.plain and within(each.place.span, span) for each in self._cuts)

    def cut(self, place: Place, code: str, misled: Finding | None = None, plain: bool = False) -> bool:
        """Leave out ``place`` from the next run on. False if that is not possible, or was done before."""
        if place.span in self._spans:
            return False
        self._spans.add(place.span)
        self._cuts.append(Cut(place, code, misled, plain))
        return self._instrumentation.cut(place.span, len(self._cuts) - 1)


class Filling:
    """The values at the cuts during one run."""

    def __init__(self, run: Run, cuts: Cuts, choices: Choices) -> None:
        self.run, self.cuts, self.choices = run, cuts, choices
        self._values: dict[_Key, Any] = {}
        """What expressions gave that read a module, which may change from run to run."""

    def fill(self, number: int, kept: Any = None) -> Any:
        """The value at a cut: the expression's value on the example inputs, or an unknown traced value."""
        place, code, misled, plain = self.cuts[number]
        if kept is None:
            if isinstance(place.node, (ast.Raise, ast.Assert)):
                self.run.guessed = True
            return None
        frame = sys._getframe(1)
        if misled is not None and misled.code == "FX216":
            raise AttributeError(f"'Tensor' object has no attribute in `{place.text}`")
        try:
            with self.run.aside():
                value = self._evaluate(place.node, frame)
        except Exception:
            self.run.guessed = True
            if misled is not None and code == misled.code:
                # Tracing gives the wrong value here; for a bool, the right one is known.
                value = kept()
                return not value if isinstance(value, bool) else value
            found = self._looked_up(number, place.node, frame) if RULES[code].picks else self._built(place.node, frame)
            return found[0] if found else self._unknown(code, PLAIN if plain else UNKNOWN)
        return self._as_traced(value, code)

    def _looked_up(self, number: int, node: Any, frame: Any) -> list[Any]:
        """In a list of one, an item for a lookup of a module, parameter or function by a traced value: each kind in
        turn, since each may have its own problems. Empty for numbers and the like."""
        if not isinstance(node, ast.Subscript):
            return []
        try:
            with self.run.aside():
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
        return [kinds[self.choices.item(number, len(kinds))]]

    def _built(self, node: Any, frame: Any) -> list[Any]:
        """In a list of one, a module like the one that the expression constructs, with 1 for every unknown size, since
        its uses may fail too. Empty for everything else."""
        if not isinstance(node, ast.Call):
            return []
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _FLUENT:
            # These return the module itself.
            try:
                with self.run.aside():
                    owner = _evaluated(function.value, frame)
            except Exception:
                return self._built(function.value, frame)
            return [owner] if isinstance(owner, nn.Module) else []
        kind = constant(function, frame)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            return []
        try:
            with self.run.aside(), torch.device("meta"):
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
        return 1 if isinstance(value, (torch.Tensor, TensorMeta)) else value

    def _unknown(self, code: str, value: Any) -> Proxy:
        proxy = self.run.tracer.create_proxy("call_function", hole, (code, RULES[code].title), {})
        self.run.values.known[proxy.node] = value
        return proxy

    def _as_traced(self, value: Any, code: str) -> Any:
        def one(item: Any) -> Any:
            if item is FakeTensor:
                return torch.Tensor
            if type(item).__module__ == "numpy" and hasattr(item, "item") and not getattr(item, "shape", ()):
                return item.item()  # as torch and math return it
            if isinstance(item, TensorMeta):
                return self._unknown(code, item)
            return self._unknown(code, TensorMeta.of(item)) if isinstance(item, torch.Tensor) else item

        return map_values(value, one)

    def _evaluate(self, node: Any, frame: Any) -> Any:
        """Run the expression with example values in place of traced ones; tensors are fake, or described."""
        node = node.value if isinstance(node, (ast.Assign, ast.Expr)) else node
        if isinstance(node, ast.AugAssign) or not isinstance(node, ast.expr):
            raise _CannotTell
        local = frame.f_locals
        names = sorted({inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & local.keys())
        modules: list[nn.Module] = []
        try:
            key = (node, *(self._read(local[name], modules) for name in names))
        except _NoKey:
            return self._run(node, frame, names)
        known = self._values if modules else self.cuts.values
        if key not in known:
            value = self._run(node, frame, names)
            described = map_values(value, lambda item: TensorMeta.of(item) if type(item) is FakeTensor else item)
            if not _is_data(described):
                return value
            known[key] = described
        return known[key]

    def _read(self, item: Any, modules: list[nn.Module]) -> Any:
        """What an expression depends on that reads a value, to be compared.  Raises _NoKey where that is more."""
        if isinstance(item, Proxy):
            value = self.run.values.of(item.node)
            return ("traced", value) if type(value) is TensorMeta else ("traced", self._read(value, modules))
        if isinstance(item, nn.Module):
            modules.append(item)
            return id(item)
        if isinstance(item, (tuple, list)):
            return (type(item), *(self._read(each, modules) for each in item))
        if type(item) not in _DATA:
            raise _NoKey
        return type(item), item

    def _run(self, node: ast.expr, frame: Any, names: Iterable[str]) -> Any:
        mode = fake_mode()
        scope = dict(frame.f_globals)
        local = frame.f_locals
        for name in names:
            scope[name] = map_values(local[name], lambda item: self._real(item, mode))
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        # A function, so that it does not look like module level.
        function = ast.copy_location(ast.Lambda(args=empty, body=node), node)
        code = compile(ast.Expression(function), "<cut>", "eval", dont_inherit=True)
        with mode:
            return eval(code, scope)()

    def _real(self, item: Any, mode: Any) -> Any:
        if not isinstance(item, Proxy):
            return item
        value = self.run.values.of(item.node)

        def one(part: Any) -> Any:
            if type(part) is Unknown:
                raise _CannotTell
            if type(part) is TensorMeta:
                with mode:
                    return part.blank(part.device)
            return part

        return map_values(value, one)
