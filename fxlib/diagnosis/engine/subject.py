"""The subject of a diagnosis: the root and how it is traced. The same for every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from torch import nn

from fxlib.diagnosis.engine import reach, trees
from fxlib.diagnosis.engine.inputs import placeholder_values, signature_of
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Lookers
from fxlib.diagnosis.engine.snapshot import Snapshot
from fxlib.diagnosis.engine.tracers import ContinuingTracer, StrictTracer
from fxlib.ir.node import Node

__all__ = ["Subject", "has_own_modes", "prepare"]

_MODES = frozenset({"set_grad_enabled", "_set_grad_enabled", "__enter__", "enter_context"})
"""Names in code that changes the grad mode or autocast without its own context."""


def has_own_modes(module: nn.Module) -> bool:
    """Whether a module has a `train` or `eval` that is not torch's."""
    kind = type(module)
    if kind.train is not nn.Module.train or kind.eval is not nn.Module.eval:
        return True
    return "train" in vars(module) or "eval" in vars(module)


class _Ahead:
    """Facts about a root that need no run."""

    def __init__(self, root: Any, leaves: frozenset[str], own_tracer: Callable[[], Any] | None) -> None:
        self._of = root, leaves, own_tracer
        self._modules = reach.reached(root, StrictTracer(leaves, own_tracer).is_leaf_module)
        self.functions = reach.reachable(root, self._modules)
        self._names = self._named()
        self.snapshot = Snapshot(self._modules, self.functions)

    def _named(self) -> list[list[str]]:
        return [[*reach.names_in(function.__code__)] for function in self.functions]

    def is_of(self, root: Any, leaves: frozenset[str], own_tracer: Callable[[], Any] | None) -> bool:
        """Whether it is still up to date; what changed functions reach is looked up again."""
        if (root, leaves, own_tracer) != self._of or not self.snapshot.renewed():
            return False
        if self._names == self._named():
            return True
        self.functions = reach.reachable(root, self._modules)
        return self.snapshot.follow(self.functions)


_ahead: dict[int, _Ahead] = {}
"""By the identity of a root, which it keeps alive."""


def prepare(root: Any, leaf_modules: Iterable[str] = (), own_tracer: Callable[[], Any] | None = None) -> None:
    """Prepare the diagnosis of a root, as far as possible without running its code."""
    _ahead[id(root)] = _Ahead(root, frozenset(leaf_modules), own_tracer)


@dataclass(frozen=True)
class Subject:
    """A root with everything known before the first run.

    ``inputs`` are the example values by the target of the placeholder, ``misfit`` is a text if the examples do not fit
    the signature, ``snapshot`` is the state of its modules. ``own_tracer`` makes the tracer that decides what is
    captured, if that is not ours.
    """

    root: Any
    leaves: frozenset[str]
    concrete_args: Any
    inputs: Mapping[str, Any]
    misfit: str | None
    instrumentation: Instrumentation
    snapshot: Snapshot
    own_tracer: Callable[[], Any] | None = None
    changes_modes: bool = False

    @classmethod
    def of(
        cls,
        root: Any,
        example_inputs: Any,
        concrete_args: Any,
        leaf_modules: Iterable[str],
        lookers: Lookers,
        own_tracer: Callable[[], Any] | None = None,
    ) -> Subject:
        """Find the functions that a trace reaches, rewrite them, and save the state of the modules."""
        leaves = frozenset(leaf_modules)
        inputs, misfit = placeholder_values(root, example_inputs, concrete_args)
        ahead = _ahead.pop(id(root), None)
        if ahead is None or not ahead.is_of(root, leaves, own_tracer):
            ahead = _Ahead(root, leaves, own_tracer)
        functions, snapshot = ahead.functions, ahead.snapshot
        instrumentation = Instrumentation(functions, lookers)
        named = {name for function in functions for name in reach.names_in(function.__code__)}
        modes = not named.isdisjoint(_MODES)
        return cls(root, leaves, concrete_args, inputs, misfit, instrumentation, snapshot, own_tracer, modes)

    @cached_property
    def sets_own_modes(self) -> bool:
        """Whether a class of the root has a `train` or `eval` of its own, which a graph does not have."""
        return isinstance(self.root, nn.Module) and any(map(has_own_modes, self.root.modules()))

    def tracer(self) -> ContinuingTracer:
        made = ContinuingTracer(self.leaves, self.own_tracer)
        made.changes_modes = self.changes_modes
        return made

    def defaults_to_none(self, node: Node) -> bool:
        """Whether a node is an argument with the default None."""
        signature = signature_of(self.root) if node.op == "placeholder" else None
        parameter = None if signature is None else signature.parameters.get(str(node.target))
        return parameter is not None and parameter.default is None

    @property
    def code(self) -> CodeType | None:
        """The code of the root's forward, as written."""
        function = type(self.root).forward if isinstance(self.root, nn.Module) else self.root
        code = getattr(function, "__code__", None)
        return self.instrumentation.original.get(code, code) if isinstance(code, CodeType) else None

    @property
    def definition(self) -> Place | None:
        """The line of forward's ``def``."""
        code = self.code
        head = trees.head_of(code) if code is not None else None
        return Place(head, None, None, (head,)) if head is not None else None

    @property
    def function_name(self) -> str:
        """The traced function: ``forward``, or the name of a function."""
        return "forward" if isinstance(self.root, nn.Module) else getattr(self.root, "__name__", "the function")

    @property
    def name(self) -> str:
        """The class of the root; ``function`` for a function."""
        return type(self.root).__name__ if isinstance(self.root, nn.Module) else "function"
