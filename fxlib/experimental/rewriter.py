"""Tracing of functions with assertions and annotated assignments, by rewriting their source first.

The rewritten function keeps the globals, the closure and the lines of the original.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from fxlib.annotate import annotate
from fxlib.graph import Graph
from fxlib.tracer import Tracer

__all__ = ["AST_Rewriter", "RewritingTracer"]

# Names by which rewritten code reaches what it calls; bound as variables of an enclosing function.
_BOUND = {"_fx_assert": torch._assert, "_fx_annotate": annotate}


class AST_Rewriter(ast.NodeTransformer):
    """Replaces what cannot be traced in a function: a method ``visit_<node class>`` per kind of syntax.

    ``assert c, text`` becomes ``torch._assert(c, text)`` and ``y: T = v`` an assignment that types the node of ``v``.
    """

    def rewrite(self, fn: types.FunctionType) -> types.FunctionType:
        """``fn``, a function or a method, compiled anew from its rewritten source.

        Raises:
            OSError: the source of ``fn`` is not available.
            ValueError: ``fn`` is no ``def``, a lambda for instance.
        """
        lines, first = inspect.getsourcelines(fn)
        # A block of its own for an indented definition: dedenting would change the text of long strings.
        indented = lines[0][:1].isspace()
        tree: Any = ast.parse("".join(["if True:\n", *lines] if indented else lines))
        tree.body = tree.body[0].body if indented else tree.body
        definition = tree.body[0]
        if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            raise ValueError(f"{fn.__qualname__} is not defined by def, so that its source cannot be rewritten")
        definition.decorator_list = []
        rewritten = self.visit(tree).body[0]
        ast.increment_lineno(rewritten, first - 1 - indented)
        code = _compiled(rewritten, fn.__code__)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
        cells.update({name: types.CellType(value) for name, value in _BOUND.items()})
        result = types.FunctionType(
            code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars)
        )
        result.__kwdefaults__ = copy.copy(fn.__kwdefaults__)
        result.__annotations__ = dict(fn.__annotations__)
        result.__dict__.update({k: v for k, v in vars(fn).items() if k != "__wrapped__"})
        result.__qualname__, result.__module__, result.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
        return result

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """``assert c, text`` as ``torch._assert(c, text)``."""
        message = node.msg if node.msg is not None else ast.Constant(value="")
        return _at(node, ast.Expr(_call("_fx_assert", node.test, message)))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """``y: T = v`` as an assignment of ``v`` typed ``T``; a declaration without value is left out."""
        if node.value is None:
            return _at(node, ast.Pass())
        return _at(node, ast.Assign(targets=[node.target], value=_call("_fx_annotate", node.value, node.annotation)))


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _at(old: ast.stmt, new: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _compiled(definition: Any, original: types.CodeType) -> types.CodeType:
    """The code of a function definition that finds its free variables where the original does."""
    names = dict.fromkeys([*original.co_freevars, *_BOUND])
    enclosing = ast.parse(f"def enclosing({', '.join(names)}): pass")
    enclosing.body[0].body = [definition]  # type: ignore[attr-defined]
    ast.fix_missing_locations(enclosing)
    module = compile(enclosing, original.co_filename, "exec", flags=original.co_flags & _FUTURE, dont_inherit=True)
    outer = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == definition.name)


# from __future__ import annotations holds for a file, so the function compiled alone needs its flag.
_FUTURE = __import__("__future__").annotations.compiler_flag


class RewritingTracer(Tracer):
    """A Tracer that rewrites ``forward``, or the function it traces, with AST_Rewriter first.

    Assertions become ``torch._assert`` in the graph. Called submodules that are traced into are not rewritten. After
    ``trace``, ``root`` is the rewritten copy, which shares parameters and submodules with the original.
    """

    def trace(self, root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """As ``Tracer.trace``, of the rewritten ``root``."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: torch.nn.Module | Callable[..., Any]) -> torch.nn.Module | Callable[..., Any]:
    if not isinstance(fn, torch.nn.Module):
        return AST_Rewriter().rewrite(fn)  # type: ignore[arg-type]
    method: Any = fn.forward
    forward = AST_Rewriter().rewrite(getattr(method, "__func__", method))
    rewritten = type("RewrittenModule", (torch.nn.Module,), {"forward": forward, "__init__": _share})
    functools.update_wrapper(rewritten, type(fn), assigned=("__doc__", "__module__"), updated=())
    return rewritten(fn)


def _share(self: torch.nn.Module, original: torch.nn.Module) -> None:
    torch.nn.Module.__init__(self)
    for name, value in vars(original).items():
        vars(self)[name] = copy.copy(value)
