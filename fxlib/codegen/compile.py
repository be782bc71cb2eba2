"""Compiling generated source so that tracebacks, ``inspect`` and ``pdb`` can show it."""

import itertools
import linecache
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxlib.codegen.function import PythonCode

__all__: list[str] = []

FX_GRAPH_MODULE_FILE_PREFIX = "fx_generated_"


class _EvalCacheLoader:
    """Serves generated source to ``linecache`` under the file names it was compiled with."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = itertools.count()

    def cache(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:
        """Keep ``src`` and give the file name to compile it with."""
        # torch.fx numbers its own sources, and linecache is shared with it.
        key = f"<eval_with_key>.fxlib_{next(self.next_id)}"
        if co_fields:
            if "co_firstlineno" in co_fields:
                key += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"
            elif "co_filename" in co_fields:
                key += f" from {co_fields['co_filename']}"
        self.eval_cache[key] = src
        # linecache asks the loader in a frame's globals when the source is first shown.
        linecache.lazycache(key, {**globals, "__name__": key, "__loader__": self})
        return key

    def get_source(self, module_name: str) -> str | None:
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> None:
    """Execute source in ``globals``, keeping it for tracebacks."""
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals)


def _method_from_src(
    method_name: str, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The function ``method_name`` that ``src`` defines; ``globals`` stays as it is."""
    scope = dict(globals)
    _exec_with_source(src, scope, co_fields)
    return scope.pop(method_name)


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


class _DeferredForward:
    """A class's ``forward`` before its first use; compiles the code then.

    Tracing and editing make many graph modules that are never run, and compiling is most of their cost.
    """

    def __init__(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any]) -> None:
        self.src = src
        self.globals = globals
        self.co_fields = co_fields

    def compile(self, owner: type) -> Callable[..., Any]:
        forward = _forward_from_src(self.src, self.globals, self.co_fields)
        # Another thread may have compiled it, or set another forward, in the meantime: keep that one.
        for cls in owner.__mro__:
            if cls.__dict__.get("forward") is self:
                cls.forward = forward  # type: ignore[attr-defined]
        return forward

    def __get__(self, instance: Any, owner: type) -> Any:
        forward = self.compile(owner)
        return forward if instance is None else forward.__get__(instance, owner)


def forward_of(code: "PythonCode", co_fields: dict[str, Any]) -> Any:
    """A class's ``forward`` for generated code: the function, or a descriptor that compiles it at first use.

    Raises:
        SyntaxError: the code is not Python.
    """
    make = _DeferredForward if code._deferrable else _forward_from_src
    return make(code.src, code.globals, co_fields)


def is_generated(code: types.CodeType) -> bool:
    """Whether a code object was compiled here."""
    return code.co_filename in _loader.eval_cache
