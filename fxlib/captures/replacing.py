"""Replaces expressions of a running model by their eager values, so that torch analyses the code after them.

The file is compiled again with the expression replaced, and the functions that run get the new code. No file is
written, and the functions get their own code back at the end.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gc
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, cast

import torch

from fxlib.captures.places import file_tree
from fxlib.diagnosis.engine.trees import at_span
from fxlib.ir.span import Span

__all__ = ["Functions", "Replacements"]

# A leading double underscore alone would be mangled inside a class.
_TORCH, _KEEP, _NOTHING = "__fxlens_torch__", "__fxlens_keep__", "__fxlens_nothing__"
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


class Functions:
    """The Python functions of this process by file. They are found once, since that visits every object."""

    def __init__(self) -> None:
        self._by_file: dict[str, list[FunctionType]] | None = None

    def of_file(self, file: str) -> list[FunctionType]:
        if self._by_file is None:
            self._by_file = {}
            for each in gc.get_objects():
                if type(each) is FunctionType:
                    self._by_file.setdefault(each.__code__.co_filename, []).append(each)
        return self._by_file.get(file, [])


class Replacements:
    """The replaced expressions of one model.

    Args:
        eager: runs the model as it is, on its inputs.
        functions: those of this process; by default they are searched for.
    """

    def __init__(self, eager: Callable[[], Any], functions: Functions | None = None) -> None:
        self.eager = eager
        self.functions = functions or Functions()
        self.values: dict[Span, list[Any]] = {}

    def add(self, spans: list[Span]) -> list[Span]:
        """Replace these expressions by their eager values from now on. Returns those for which that works: their values
        are constants, tensors, or lists, tuples and dictionaries of them, or they are the context of a `with`. If an
        expression is the callee of a call, the call is replaced."""
        whole = (self._called(span) for span in dict.fromkeys(spans))
        new = [span for span in dict.fromkeys(whole) if span is not None and span not in self.values]
        kept: dict[Span, list[Any]] = {span: [] for span in new}
        questions = {span for span in new if _needs_truth_only(file_tree(span.file), self._node(span))}

        def keep(number: int, value: Any) -> Any:
            span = new[number]
            kept[span].append(bool(value) if span in questions else _snapshot(value))
            return value

        numbers = {span: i for i, span in enumerate(new)}
        with (
            self._patched({span: _call(_KEEP, numbers[span]) for span in new}, {_KEEP: keep}),
            contextlib.suppress(Exception),
        ):
            self.eager()
        reached = [
            span
            for span in new
            if kept[span] and (_source_of(kept[span][0]) or _is_context(file_tree(span.file), span))
        ]
        self.values.update({span: kept[span] for span in reached})
        return reached

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Give the expressions their eager values while this is active."""
        names: dict[str, Any] = {_TORCH: torch, _NOTHING: contextlib.nullcontext}
        fillings = {}
        for number, (span, values) in enumerate(self.values.items()):
            written = [_source_of(value) or "None" for value in values]
            text = written[0]
            if len(set(written)) > 1 and all(type(value) in _CONSTANTS for value in values):
                # In a loop, a different value each time: the loop has to end as in eager.
                name = f"__fxlens_values_{number}__"
                names[name] = list(values)
                text = f"({name}.pop(0) if {name} else {written[-1]})"
            fillings[span] = _constant(text)
        with self._patched(fillings, names):
            yield

    @contextlib.contextmanager
    def exchanged(self, span: Span, change: Callable[[ast.expr], ast.expr]) -> Iterator[None]:
        """Replace the expression at ``span`` by ``change`` of it while this is active."""
        with self._patched({span: change}, {}):
            yield

    # ---- code

    @staticmethod
    def _node(span: Span) -> ast.expr | None:
        tree = file_tree(span.file)
        node = at_span(tree, span) if tree is not None else None
        if not isinstance(node, ast.expr) or Span(span.file, *_range(node)) != span:
            return None
        if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            return None  # the name that it binds is read later
        return node if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) else None

    def _called(self, span: Span) -> Span | None:
        """The span of an expression, or of the call whose callee it is; None for anything else."""
        node = self._node(span)
        if node is None:
            return None
        tree = file_tree(span.file)
        calls = ast.walk(tree) if tree is not None else ()
        call = next((each for each in calls if isinstance(each, ast.Call) and each.func is node), None)
        return span if call is None else Span(span.file, *_range(call))

    @contextlib.contextmanager
    def _patched(self, changes: dict[Span, Callable[[ast.expr], ast.expr]], names: dict[str, Any]) -> Iterator[None]:
        before: list[tuple[FunctionType, CodeType]] = []
        owners: list[dict[str, Any]] = []
        try:
            for file in {span.file for span in changes}:
                code = self._compiled(file, {span: change for span, change in changes.items() if span.file == file})
                lines = {span.line for span in changes if span.file == file}
                for function in self.functions.of_file(file):
                    new = _counterpart(code, function.__code__) if _covers(function.__code__, lines) else None
                    if new is not None:
                        before.append((function, function.__code__))
                        owners.append(function.__globals__)
                        function.__globals__.update(names)
                        function.__code__ = new
            yield
        finally:
            for function, own in before:
                function.__code__ = own
            for owner in owners:
                for name in names:
                    owner.pop(name, None)

    @staticmethod
    def _compiled(file: str, changes: dict[Span, Callable[[ast.expr], ast.expr]]) -> CodeType:
        tree = ast.parse("".join(linecache.getlines(file)))
        changed = _Change(file, changes).visit(tree)
        return compile(ast.fix_missing_locations(changed), file, "exec", dont_inherit=True)


class _Change(ast.NodeTransformer):
    """Replaces the outermost expression of each span."""

    def __init__(self, file: str, changes: dict[Span, Callable[[ast.expr], ast.expr]]) -> None:
        self.file = file
        self.changes = dict(changes)

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.withitem):
            return self._withitem(node)
        if isinstance(node, ast.expr):
            change = self.changes.pop(Span(self.file, *_range(node)), None)
            if change is not None:
                return _placed(change(cast(ast.expr, self.generic_visit(node))), node)
        return self.generic_visit(node)

    def _withitem(self, node: ast.withitem) -> ast.withitem:
        change = self.changes.pop(Span(self.file, *_range(node.context_expr)), None)
        self.generic_visit(node)
        inner = node
        if change is not None:
            inner.context_expr = _placed(change(inner.context_expr), node.context_expr)
            if not isinstance(change, _Kept):
                nothing: ast.expr = ast.Call(ast.Name(_NOTHING, ast.Load()), [], [])
                inner.context_expr = _placed(nothing, node.context_expr)
        return inner


class _Kept:
    """Wraps an expression in a call that keeps its value."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def __call__(self, node: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(self.name, ast.Load()), [ast.Constant(self.number), node], [])


def _call(name: str, number: int) -> Callable[[ast.expr], ast.expr]:
    return _Kept(name, number)


def _constant(text: str) -> Callable[[ast.expr], ast.expr]:
    def change(node: ast.expr) -> ast.expr:
        made = ast.parse(text, mode="eval").body
        for inner in ast.walk(made):
            # They get the position of the node that they replace.
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                inner.__dict__.pop(name, None)
        # The original expression stays in a branch that never runs, so that the function closes over the same names.
        return ast.IfExp(ast.Constant(True), made, node)

    return change


def _needs_truth_only(tree: Any, node: ast.expr | None) -> bool:
    """Whether only the truth value of an expression is used."""
    for above in ast.walk(tree):
        if isinstance(above, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            if above.test is node:
                return True
        elif isinstance(above, ast.comprehension):
            if node in above.ifs:
                return True
        elif isinstance(above, ast.BoolOp):
            if node in above.values:
                return True
        elif isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not) and above.operand is node:
            return True
    return False


def _is_context(tree: Any, span: Span) -> bool:
    """Whether an expression is the context of a `with`."""
    return any(
        _range(item.context_expr) == span[1:]
        for above in ast.walk(tree)
        if isinstance(above, (ast.With, ast.AsyncWith))
        for item in above.items
    )


def _placed(node: Any, like: ast.expr) -> Any:
    """``node`` with the position of ``like``, also for inner nodes without a position."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.expr, ast.keyword)) and not hasattr(inner, "end_lineno"):
            ast.copy_location(inner, like)
    return ast.copy_location(node, like)


def _range(node: Any) -> tuple[int, int, int, int]:
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _covers(code: CodeType, lines: set[int]) -> bool:
    first, last = code.co_firstlineno, _last_line(code)
    return any(first <= line <= last for line in lines)


def _last_line(code: CodeType) -> int:
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return max([last, *(_last_line(each) for each in code.co_consts if isinstance(each, CodeType))])


def _counterpart(tree: CodeType, code: CodeType) -> CodeType | None:
    """The code object in a file's code that corresponds to ``code``."""
    for constant in tree.co_consts:
        if isinstance(constant, CodeType):
            if (
                (constant.co_name, constant.co_firstlineno) == (code.co_name, code.co_firstlineno)
                and constant.co_freevars == code.co_freevars
                and constant.co_varnames[: constant.co_argcount] == code.co_varnames[: code.co_argcount]
            ):
                return constant
            found = _counterpart(constant, code)
            if found is not None:
                return found
    return None


# ---- values


def _snapshot(value: Any) -> Any:
    """A copy of a value as it is now. Items of collections are not copied: only their types and sizes are used."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple, dict, set)):
        with contextlib.suppress(Exception):
            return copy.copy(value)
    return value


def _source_of(value: Any) -> str | None:
    """Source for such a value: a constant, or a tensor of that size; None if there is none."""
    if isinstance(value, torch.Size):
        return f"{_TORCH}.Size({tuple(value)!r})"
    if type(value) in _CONSTANTS:
        return f"float({str(value)!r})" if isinstance(value, float) and value - value != 0 else repr(value)
    if type(value) is torch.Tensor or type(value) is torch.nn.Parameter:
        if value.layout is not torch.strided:
            return None
        place = "" if value.device.type == "cpu" else f", device={str(value.device)!r}"
        return (
            f"{_TORCH}.zeros({tuple(value.shape)!r}, dtype={_TORCH}.{str(value.dtype).removeprefix('torch.')}{place})"
        )
    if type(value) in (list, tuple):
        items = [_source_of(item) for item in value]
        if any(item is None for item in items):
            return None
        inner = ", ".join(item or "" for item in items)
        return f"[{inner}]" if type(value) is list else f"({inner}{',' if len(items) == 1 else ''})"
    if type(value) is dict:
        pairs = [(_source_of(key), _source_of(item)) for key, item in value.items()]
        if any(key is None or item is None for key, item in pairs):
            return None
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    return None
