"""How the source uses an expression: read from its syntax tree, whose nodes know their parents."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from fxlib.diagnosis.engine.trees import ancestors

__all__ = [
    "MOMENTS",
    "called_name",
    "catching",
    "form_of",
    "is_none_test",
    "may_catch",
    "raises_again",
    "surrounding_statement",
    "wanted_truth",
]

# Other context managers may suppress an exception of their block.
_CATCHING_NOTHING = {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "autocast", "device"}
_FUNCTION_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
MOMENTS = frozenset(
    {
        *_CLOCKS, *(f"{name}_ns" for name in _CLOCKS), "ctime", "asctime", "strftime", "now", "today", "utcnow",
        "uuid1", "uuid4", "urandom", "token_bytes", "token_hex", "token_urlsafe", "randbelow",
        "id", "next", "stack", "currentframe", "_getframe", "is_fx_tracing",
        "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled",
    }
)  # fmt: skip
"""Functions whose results vary between calls: times, ids, items of iterators, stacks, modes."""
_OWNERS = {ast.If: "if", ast.While: "while", ast.IfExp: "ternary", ast.Assert: "assert"}


def form_of(node: Any) -> tuple[str, Any]:
    """How the truth value of ``node`` is used, as ``(form, owner)``: "if", "while", "ternary", "assert", "filter" (a
    comprehension's), "in", "chain", "boolean" (and, or, not outside of these) or "call"."""
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            return "chain", node
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return "in", node
    above = node
    boolean = False
    while above is not None:
        parent = getattr(above, "parent", None)
        if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            boolean = True
        elif isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is above:
            return _OWNERS[type(parent)], parent
        elif isinstance(parent, ast.comprehension) and above in parent.ifs:
            return "filter", parent
        else:
            break
        above = parent
    return ("boolean" if boolean else "call"), node


def wanted_truth(node: Any, owner: Any, truth: bool) -> bool:
    """The value of ``node`` for which the test of ``owner`` is ``truth`` (if other operands allow it)."""
    above = node
    while above is not None and getattr(above, "parent", None) is not owner:
        above = above.parent
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
            truth = not truth
    return truth


def is_none_test(node: ast.Compare) -> bool:
    """Whether a comparison is ``... is None`` or ``... is not None``."""
    first = node.comparators[0]
    return isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(first, ast.Constant) and first.value is None


def called_name(node: Any) -> str:
    """The dotted name that a call calls, ``""`` for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    parts: list[str] = []
    function: Any = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    parts.append(function.id if isinstance(function, ast.Name) else "")
    return ".".join(reversed(parts))


def surrounding_statement(node: Any) -> Any:
    """The statement that ``node`` is, or is part of."""
    while node is not None and not isinstance(node, ast.stmt):
        node = getattr(node, "parent", None)
    return node


def may_catch(node: ast.AST) -> bool:
    """Whether an exception in a statement may end there."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return not all(_catches_nothing(item.context_expr) for item in node.items)
    return isinstance(node, ast.Try | getattr(ast, "TryStar", ast.Try))


def _catches_nothing(manager: ast.expr) -> bool:
    called = called_name(manager).split(".")
    return called[-1] in _CATCHING_NOTHING and (len(called) == 1 or called[0] == "torch")


def catching(node: Any, error: type[BaseException] | None) -> Any:
    """The handler, or the call of ``suppress``, within the function of ``node`` that would swallow ``error`` raised
    there. One that re-raises does not count. None stands for any exception, which an unknown context may swallow,
    too."""
    below = node
    for above in ancestors(node):
        if error is None and isinstance(above, ast.With) and below in above.body and may_catch(above):
            return above
        if isinstance(above, ast.Try) and below in above.body:
            for handler in above.handlers:
                if _catches(handler.type, error):
                    return None if raises_again(handler) else handler
        if isinstance(above, ast.With) and below in above.body:
            for item in above.items:
                call: Any = item.context_expr
                named = called_name(call).rpartition(".")[2] == "suppress"
                if named and any(_catches(kind, error) for kind in call.args):
                    return call
        if isinstance(above, _FUNCTION_SCOPES):
            return None
        below = above
    return None


def raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether the handler re-raises."""
    return any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement))


def _catches(kind: Any, error: type[BaseException] | None) -> bool:
    if kind is None or error is None:
        return True
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    bases = {base.__name__ for base in error.__mro__}
    for name in names:
        text = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        if text in bases:
            return True
        known = getattr(builtins, text, None)
        if isinstance(known, type) and issubclass(error, known):
            return True
    return False
