"""Leaf functions: functions that a trace records as one call, and the patching needed to see those calls.

`wrap` registers; `Patcher` replaces the registered names during a trace and restores them. Functions that were
registered with torch.fx's own ``wrap`` count too.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from fxlib.capture import module_hooks as _module_hooks
from fxlib.capture.proxy import Proxy
from fxlib.interop import torch_side
from fxlib.ir.arguments import Target

__all__ = [
    "Patcher",
    "find_proxy",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "patch_registered",
    "patch_scope",
    "public_callables",
    "tracing",
    "unwrapped",
    "wrap",
]

# (id of a module's globals, name in it) -> the globals
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
# (class, name of its method)
_wrapped_methods_to_patch: list[tuple[type, str]] = []

_MARK = "_fxlib_wrapper_of"


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Make a function of this module a leaf: a trace records the call and does not look inside.

    Call it at the top level of the module **that makes the call**, with the name that is looked up there
    (``wrap("len")``, also for builtins and imported functions), or use it as a decorator::

        @fxlib.wrap
        def keep_largest(scores, count):
            return scores if len(scores) <= count else scores.topk(count).values

    Outside a trace, and in calls without a traced value, the function is called as usual.

    Returns:
        ``fn_or_name``.

    Raises:
        RuntimeError: neither a callable nor a string.
        NotImplementedError: called inside a function or class.
    """
    if not (isinstance(fn_or_name, str) or callable(fn_or_name)):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
            f" (got {type(fn_or_name).__name__})"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    caller = sys._getframe(1)
    code, namespace = caller.f_code, caller.f_globals
    if code.co_name != "<module>":
        where = f" (called in {code.co_name}, {code.co_filename})"
        raise NotImplementedError(f"wrap must be called at the top level of a module{where}")
    _wrapped_fns_to_patch[id(namespace), name] = namespace
    return fn_or_name


# --- is a trace going on?
# --------------------------------------------------------------------------------------------------

_depth = 0


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is going on, this library's or torch.fx's."""
    return _depth > 0 or torch_side.foreign_tracing()


def is_fx_symbolic_tracing() -> bool:
    """Whether a symbolic trace is going on that is not a part of ``torch.compile`` or ``torch.export``."""
    return is_fx_tracing() and not torch.compiler.is_compiling()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """While it is entered, `is_fx_tracing` and torch.fx's functions of that name return True."""
    global _depth
    before = torch_side.set_foreign_tracing(True)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        torch_side.set_foreign_tracing(before)


# --- wrappers ---------------------------------------------------------------------------------------------------------


def find_proxy(*objects: object) -> Proxy | None:
    """The first proxy in (nested) arguments, which may refer back to themselves."""
    pending = list(reversed(objects))
    entered: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, Proxy):
            return value
        if not isinstance(value, (tuple, list, dict, slice)) or id(value) in entered:
            continue
        entered.add(id(value))
        if isinstance(value, (tuple, list)):
            pending += reversed(value)
        elif isinstance(value, dict):
            pending += reversed(value.values())
        elif isinstance(value, slice):
            pending += (value.step, value.stop, value.start)
    return None


def _recording(function: Callable[..., Any], op: str, target: Target) -> Callable[..., Any]:
    """``function``, but recorded as a node of that operation when an argument is traced."""

    @functools.wraps(function)
    def leaf(*args: Any, **kwargs: Any) -> Any:
        traced = find_proxy(args, kwargs)
        if traced is None:
            return function(*args, **kwargs)
        recorded = traced.tracer._emit(op, target, args, kwargs)
        if target is function:
            recorded.node.meta["is_wrapped"] = True
            traced.tracer._wrapped(recorded.node, args, kwargs)
        return recorded

    setattr(leaf, _MARK, function)
    return leaf


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The original function, if a trace has replaced it by a wrapper."""
    return getattr(function, _MARK, function)  # type: ignore[no-any-return]


# id(function) -> its wrapper, which keeps it alive: each trace patches the same functions.
_wrappers: dict[int, Callable[..., Any]] = {}


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    """``orig_fn``, but recorded as a ``call_function`` node when an argument is traced."""
    if id(orig_fn) not in _wrappers:
        if len(_wrappers) > 4096:
            _wrappers.clear()
        _wrappers[id(orig_fn)] = _recording(orig_fn, "call_function", orig_fn)
    return _wrappers[id(orig_fn)]


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    """The method ``name`` of ``cls``, but recorded as a ``call_method`` node when an argument is traced."""
    return _recording(getattr(cls, name), "call_method", name)


def public_callables(modules: tuple[ModuleType, ...], functions: tuple[Callable[..., Any], ...]) -> set[int]:
    """Ids of the functions that are recorded wherever a traced module's globals name them."""
    named = [pair for module in modules for pair in vars(module).items()]
    return {*map(id, functions), *(id(value) for name, value in named if not name.startswith("_") and callable(value))}


# --- patching ---------------------------------------------------------------------------------------------------------

_ABSENT: Any = object()


class Patcher:
    """Replacements in namespaces and classes that are undone, last first, on leaving.

    Use it as a context manager. A name that another patcher has already wrapped is left alone.
    """

    def __init__(self) -> None:
        self._namespaces: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        self._methods: list[tuple[type, str, Any, Any]] = []
        self._visited: dict[int, object] = {}

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Make ``name`` mean ``new_fn`` in a module's globals; a builtin gets a global of its name.

        Raises:
            KeyError: there is no such name.
        """
        current = frame_dict.get(name, _ABSENT)
        if current is _ABSENT and not hasattr(builtins, name):
            raise KeyError(name)
        if deduplicate and hasattr(current, _MARK):
            return
        self._apply(frame_dict, {name: new_fn})

    def _apply(self, namespace: dict[str, Any], new: dict[str, Any]) -> None:
        self._namespaces.append((namespace, {name: namespace.get(name, _ABSENT) for name in new}, new))
        namespace.update(new)

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Make ``name`` mean ``new_fn`` on a class.

        Raises:
            AttributeError: the class has no such attribute.
        """
        if deduplicate and hasattr(getattr(cls, name), _MARK):
            return
        self._methods.append((cls, name, vars(cls).get(name, _ABSENT), new_fn))
        setattr(cls, name, new_fn)

    def visit_once(self, thing: object) -> bool:
        """Whether ``thing`` is seen for the first time."""
        if id(thing) in self._visited:
            return False
        self._visited[id(thing)] = thing
        return True

    def autowrap(self, namespace: dict[str, Any], function_ids: set[int]) -> None:
        """Wrap every function of ``function_ids`` that ``namespace`` names, once per namespace."""
        if not self.visit_once(namespace) or function_ids.isdisjoint(map(id, namespace.values())):
            return
        new = {
            name: _create_wrapped_func(value)
            for name, value in namespace.items()
            if id(value) in function_ids and not name.startswith("_") and callable(value)
        }
        if new:
            self._apply(namespace, new)

    def revert_all_patches(self) -> None:
        """Restore everything temporarily."""
        for cls, name, old, _ in reversed(self._methods):
            if old is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, old)
        for namespace, before, _ in reversed(self._namespaces):
            namespace.update(before)
            for name, old in before.items():
                if old is _ABSENT:
                    del namespace[name]

    def reapply_all_patches(self) -> None:
        """Undo `revert_all_patches`."""
        for namespace, _, new in self._namespaces:
            namespace.update(new)
        for cls, name, _, new_fn in self._methods:
            setattr(cls, name, new_fn)

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        self.revert_all_patches()
        self._namespaces.clear()
        self._methods.clear()
        self._visited.clear()


_current: Patcher | None = None


@contextlib.contextmanager
def patch_scope() -> Iterator[Patcher]:
    """A patcher for one trace, always undone at its end. Inside, `patches_reverted` applies to it."""
    global _current
    outer = _current
    with Patcher() as patcher:
        _current = patcher
        try:
            yield patcher
        finally:
            _current = outer


@contextlib.contextmanager
def patches_reverted() -> Iterator[None]:
    """Run code with all patched names restored, as outside a trace."""
    patcher = _current
    if patcher is None:
        yield
        return
    patcher.revert_all_patches()
    try:
        with _module_hooks.uninstalled():
            yield
    finally:
        patcher.reapply_all_patches()


def patch_registered(patcher: Patcher) -> None:
    """Wrap every function that `wrap`, or torch.fx's ``wrap``, has registered.

    Raises:
        KeyError: a registered name does not exist in the module that registered it.
    """
    for registry in (_wrapped_fns_to_patch, torch_side.foreign_wrapped_functions()):
        for (_, name), namespace in tuple(registry.items()):
            meant = namespace.get(name, getattr(builtins, name, _ABSENT))
            if meant is _ABSENT:
                raise KeyError(name)
            patcher.patch(namespace, name, _create_wrapped_func(meant))
    for cls, name in (*_wrapped_methods_to_patch, *torch_side.foreign_wrapped_methods()):
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))
