"""The module whose code is being traced."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from fxlib.capture.tracer import Tracer

__all__ = ["ModuleCall", "Scope", "ScopeContextManager"]

ModuleStack = OrderedDict[str, tuple[str, "type[nn.Module]"]]
"""The module calls in progress: ``path``, or ``path@1`` for a further call, to path and class."""


class Scope:
    """The module whose code is being traced.

    ``module_path`` is the qualified name of the module whose ``forward`` runs (``""`` for the root) and
    ``module_type`` its class (None for the root).
    """

    def __init__(self, module_path: str, module_type: type[nn.Module] | None) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Sets ``scope`` to ``current_scope``, and restores it on leaving."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = vars(scope).copy()
        vars(scope).update(vars(current_scope))

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc: object) -> None:
        vars(self._scope).update(self._before)


class ModuleCall:
    """One call of a submodule: inside, the tracer's scope is that module and its module stack ends with the call.

    Raises:
        AssertionError: on leaving, when the code inside left a call of its own on the stack.
    """

    def __init__(self, tracer: Tracer, path: str, module_type: type[nn.Module]) -> None:
        self._tracer = tracer
        self._entry = path, module_type
        number = tracer.num_calls.get(path, 0)
        self._key = f"{path}@{number}" if number else path
        tracer.num_calls[path] = number + 1

    def __enter__(self) -> None:
        self._scope = ScopeContextManager(self._tracer.scope, Scope(*self._entry))
        self._tracer.module_stack[self._key] = self._entry

    def __exit__(self, failed: type[BaseException] | None, *exc: object) -> None:
        self._scope.__exit__()
        # Not removed on an exception, as in torch.fx: a program that swallows one fails here in both.
        if failed is None:
            last, _ = self._tracer.module_stack.popitem()
            if last != self._key:
                raise AssertionError(f"Unexpected key {last}, expected {self._key}")
