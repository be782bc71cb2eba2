"""Compiling generated source so that tracebacks, ``inspect`` and ``pdb`` can show it."""

import builtins
import itertools
import linecache
import types
from collections.abc import Callable
from types import FunctionType
from typing import Any

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
        # linecache asks the loader named in a frame's globals once somebody wants to see the lines.
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
    """Stands in a class for a ``forward`` that nobody has asked for yet; compiles it when somebody does.

    Tracing and editing make many graph modules that are never run, and compiling is most of what making one costs.
    """

    def __init__(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any]) -> None:
        self.src = src
        self.globals = globals
        self.co_fields = co_fields

    def compile(self, owner: type) -> Callable[..., Any]:
        forward = _forward_from_src(self.src, self.globals, self.co_fields)
        # Another thread may have compiled, or set another forward, meanwhile: the class then keeps that one.
        for cls in owner.__mro__:
            if cls.__dict__.get("forward") is self:
                cls.forward = forward  # type: ignore[attr-defined]
        return forward

    def __get__(self, instance: Any, owner: type) -> Any:
        forward = self.compile(owner)
        return forward if instance is None else forward.__get__(instance, owner)


def is_generated(code_owner: FunctionType) -> bool:
    """Whether a function was compiled here."""
    return code_owner.__code__.co_filename in _loader.eval_cache


def _format_import_statement(name: str, obj: Any, importer: Any) -> str:
    """The statement that gives ``obj`` the name ``name`` in a fresh module."""
    from fxlib.codegen.statements import _is_from_torch
    from fxlib.ir.names import _custom_builtins

    builtin = _custom_builtins.get(name)
    if builtin is not None:
        return builtin.import_str
    if _is_from_torch(name):
        return "import torch"
    if isinstance(obj, types.ModuleType) and obj.__name__ == name == "fxlib":
        return "import fxlib._symbolic_trace"
    module_name, attribute = importer.get_name(obj)
    return f"from {module_name} import {attribute} as {name}"


def _format_import_block(globals: dict[str, Any], importer: Any) -> str:
    """Import statements for all globals of generated code.

    Args:
        globals: names and what they stand for.
        importer: a ``torch.package`` importer, which knows where objects are found.
    """
    statements = {_format_import_statement(name, obj, importer) for name, obj in globals.items()}
    return "\n".join(sorted(statements, key=_import_order))


def _import_order(statement: str) -> tuple[bool, str]:
    return (statement not in vars(builtins), statement)
