"""Leaf functions: which functions a trace records as one call, and the patching that makes it see the calls.

`wrap` registers; `Patcher` replaces the registered names for the time of a trace and puts everything back. Functions
that were registered with torch.fx's own ``wrap`` count too.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from fxlib.capture import module_hooks as _module_hooks
from fxlib.capture.proxy import Proxy
from fxlib.interop import torch_side
from fxlib.ir.arguments import map_aggregate

__all__ = [
    "Patcher",
    "find_proxy",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "patch_registered",
    "patch_scope",
    "public_callables",
    "tracing",
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
        def my_function(x, y):
            return x * x + y * y

    Outside a trace, and in calls without a traced value, the function is called as ever.

    Returns:
        ``fn_or_name``.

    Raises:
        RuntimeError: neither a callable nor a string.
        NotImplementedError: called inside a function or class.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
            f" (got {type(fn_or_name).__name__})"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None or caller.f_code.co_name != "<module>":
        where = "" if caller is None else f" (called in {caller.f_code.co_name}, {caller.f_code.co_filename})"
        raise NotImplementedError(f"wrap must be called at the top level of a module{where}")
    _wrapped_fns_to_patch[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


# --- are we tracing? --------------------------------------------------------------------------------------------------

_depth = 0


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is going on, this library's or torch.fx's."""
    return _depth > 0 or torch_side.foreign_tracing()


def is_fx_symbolic_tracing() -> bool:
    """Whether a symbolic trace is going on that is not a part of ``torch.compile`` or ``torch.export``."""
    return is_fx_tracing() and not torch.compiler.is_compiling()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """While it is entered, `is_fx_tracing` and torch.fx's own functions of that name answer true."""
    global _depth
    before = torch_side.set_foreign_tracing(True)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        torch_side.set_foreign_tracing(before)


# --- wrappers ---------------------------------------------------------------------------------------------------------


def find_proxy(*objects: Any) -> Proxy | None:
    """The first proxy in (nested) arguments."""
    found: Proxy | None = None

    def look(value: Any) -> Any:
        nonlocal found
        if found is None and isinstance(value, Proxy):
            found = value
        return value

    for item in objects:
        map_aggregate(item, look)
        if found is not None:
            break
    return found


# id(function) -> (function, its wrapper): a trace patches the same functions again and again.
_wrappers: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    """``orig_fn``, but recorded as a node when an argument is traced."""
    known = _wrappers.get(id(orig_fn))
    if known is not None:
        return known[1]

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer._emit("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    setattr(wrapped, _MARK, orig_fn)
    if len(_wrappers) > 4096:
        _wrappers.clear()
    _wrappers[id(orig_fn)] = (orig_fn, wrapped)
    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    """The method ``name`` of ``cls``, but recorded as a ``call_method`` node when an argument is traced."""
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer._emit("call_method", name, args, kwargs)

    setattr(wrapped, _MARK, orig_fn)
    return wrapped


def public_callables(modules: tuple[ModuleType, ...], functions: tuple[Callable[..., Any], ...]) -> set[int]:
    """Ids of the functions to record wherever a traced module's globals name them."""
    found = {id(fn) for fn in functions}
    for module in modules:
        found.update(id(value) for name, value in vars(module).items() if not name.startswith("_") and callable(value))
    return found


# --- patching ---------------------------------------------------------------------------------------------------------

_ABSENT = object()


class Patcher:
    """Replacements in namespaces and classes that are undone, last first, on leaving.

    Use it as a context manager. A name that another patcher has already wrapped is left alone.
    """

    def __init__(self) -> None:
        self._namespaces: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        self._methods: list[tuple[type, str, Any, Any]] = []
        self._visited: dict[int, Any] = {}

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

    def visit_once(self, thing: Any) -> bool:
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
        """Put everything back for a while."""
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
    """A patcher for one trace, put back whatever happens. Inside it, `patches_reverted` knows it."""
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
    """Run code as if no trace were going on, as far as patched names are concerned."""
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
    registries = (_wrapped_fns_to_patch, torch_side.foreign_wrapped_functions())
    for registry in registries:
        for (_, name), namespace in list(registry.items()):
            original: Any = namespace[name] if name in namespace else getattr(builtins, name, _ABSENT)
            if original is _ABSENT:
                raise KeyError(name)
            patcher.patch(namespace, name, _create_wrapped_func(original))
    for methods in (_wrapped_methods_to_patch, torch_side.foreign_wrapped_methods()):
        for cls, name in methods:
            patcher.patch_method(cls, name, _create_wrapped_method(cls, name))
