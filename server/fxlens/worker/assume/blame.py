"""Finds the parameter that an exception is about: names in the expression that raised, followed outwards through the
calls."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

from ..errors import text_of
from .source import FunctionNode, Sources, position, statements

Chain = tuple[str, ...]
"""``config.model.dim`` as a tuple of names."""
_COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


@dataclass
class Step:
    """One frame of the workspace in a traceback: what it was executing."""

    code: CodeType
    frame: FrameType
    function: FunctionNode
    node: ast.AST
    line: int


@dataclass
class Failure:
    """A trial that raised: its message, and where in the workspace it was raised."""

    error: BaseException
    message: str
    path: list[Step]


@dataclass
class Suspect:
    """A parameter of the call that was tried, and whether the failing value is the parameter itself."""

    owner: Any
    chain: Chain
    direct: bool


def failure(sources: Sources, error: BaseException) -> Failure:
    """The message is empty if the exception's own text raises."""
    try:
        message = text_of(error)
    except Exception:
        message = ""
    return Failure(error, message, steps(sources, error.__traceback__))


def steps(sources: Sources, traceback: TracebackType | None) -> list[Step]:
    """The workspace's frames, outermost first."""
    found: list[Step] = []
    while traceback is not None:
        code, frame = traceback.tb_frame.f_code, traceback.tb_frame
        if sources.is_own(code.co_filename):
            if code.co_name in _COMPREHENSIONS and found:
                node = _in_function(found[-1].function, code, traceback)
                if node is not None:
                    last = found[-1]
                    found[-1] = Step(last.code, last.frame, last.function, node, traceback.tb_lineno)
            else:
                function, node = sources.at(code, traceback)
                if function is not None and node is not None:
                    found.append(Step(code, frame, function, node, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def suspects(path: list[Step], message: str = "", held: list[Suspect] | None = None) -> list[Suspect]:
    """Parameters of the outermost call, the most directly concerned ones first.

    ``held`` receives reads from ``self`` in between: the owner is the class, the chain starts with the attribute.
    """
    if not path:
        return []
    inner = path[-1]
    chains = [(chain, True) for chain in _by_type(_concerned(inner), inner, message)]
    for step, above in zip(reversed(path), [*reversed(path[:-1]), None], strict=True):
        reached = [
            (origin, direct and pure) for chain, direct in chains for origin, pure in origins(step.function, chain)
        ]
        parameters = [each.arg for each in _parameters(step.function)]
        reached = [(chain, direct) for chain, direct in reached if chain and chain[0] in parameters]
        if held is not None and "self" in parameters:
            mine = type(step.frame.f_locals.get("self"))
            held += [
                Suspect(mine, chain[1:], direct) for chain, direct in reached if chain[0] == "self" and len(chain) > 1
            ]
        if above is None:
            owner = step.frame.f_locals.get(parameters[0]) if parameters else None
            return _unique(Suspect(type(owner), chain, direct) for chain, direct in reached if chain[0] != "self")
        chains = []
        for chain, direct in reached:
            chains += [(each, direct and pure) for each, pure in _passed(above, step, chain)]
        if not chains:
            chains = [(chain, False) for chain in _chains(above.node)]
    return []


def _concerned(step: Step) -> list[Chain]:
    """Names that the failing expression reads; for a raise, those in its conditions."""
    node = step.node
    if isinstance(node, ast.Assert):
        return list(_chains(node.test))
    statement = _statement(step)
    if isinstance(statement, ast.Raise):
        tests = [test for test, _ in conditions(step.function, statement)]
        found = [chain for test in tests[:4] for chain in _chains(test)]
        return list(dict.fromkeys([*found, *_chains(statement)]))
    inner = list(_chains(node))
    if not inner and statement is not None:
        inner = list(_chains(statement))
    return inner


def conditions(function: FunctionNode, wanted: ast.stmt) -> list[tuple[ast.expr, bool]]:
    """The conditions that led to a statement, with the result of each, the nearest first."""
    found: list[tuple[ast.expr, bool]] = []

    def search(body: list[ast.stmt]) -> bool:
        for node in body:
            if node is wanted:
                return True
            if isinstance(node, ast.If):
                for part, answer in ((node.body, True), (node.orelse, False)):
                    if search(part):
                        found.append((node.test, answer))
                        return True
            else:
                for name in ("body", "orelse", "finalbody"):
                    inner = getattr(node, name, None)
                    if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt) and search(inner):
                        return True
                for handler in getattr(node, "handlers", []):
                    if search(handler.body):
                        return True
        return False

    if isinstance(function.body, list):
        search(function.body)
    return found


def _statement(step: Step) -> ast.stmt | None:
    body = function_body(step.function)
    line = getattr(step.node, "lineno", step.line)
    best = None
    for node in statements(body):
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            best = node
    return best


def statement_of(step: Step) -> ast.stmt | None:
    """The innermost statement that a step was executing."""
    return _statement(step)


def function_body(function: FunctionNode) -> list[ast.stmt]:
    return function.body if isinstance(function.body, list) else [ast.copy_location(ast.Expr(function.body), function)]


def _by_type(chains: list[Chain], step: Step, message: str) -> list[Chain]:
    """Sorts names whose type or name is in the message to the front."""

    def rank(chain: Chain) -> int:
        value = value_of(step, chain)
        named = f"'{type(value).__name__}'" in message or type(value).__name__ + " " in message
        return 0 if named else 1

    return sorted(chains, key=rank)


def value_of(step: Step, chain: Chain) -> Any:
    """The value of a chain of names in the frame; None if unknown."""
    scope = step.frame.f_locals
    if chain[0] not in scope:
        scope = step.frame.f_globals
    value = scope.get(chain[0])
    for name in chain[1:]:
        value = inspect.getattr_static(value, name, None) if not hasattr(value, "__dict__") else vars(value).get(name)
    return value


def _chains(node: ast.AST) -> Iterator[Chain]:
    """Names and attributes of names that are read in an expression, each once."""
    seen: dict[Chain, None] = {}

    def visit(part: ast.AST) -> None:
        chain = chain_of(part)
        if chain is not None:
            seen.setdefault(chain)
            return
        if isinstance(part, ast.Call):
            for each in (*part.args, *part.keywords):
                visit(each)
            function = part.func
            if isinstance(function, ast.Attribute):
                key = part.args[0] if part.args else None
                owner = chain_of(function.value)
                if function.attr == "get" and owner and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    seen.setdefault((*owner, key.value))
                visit(function.value)
            else:
                visit(function)
            return
        for child in ast.iter_child_nodes(part):
            visit(child)

    visit(node)
    return iter(seen)


def chain_of(node: ast.AST) -> Chain | None:
    """``a.b["c"]`` as a, b, c; None for anything but a chain of names."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Name):
            return (node.id, *reversed(parts))
        else:
            return None


def origins(function: FunctionNode, chain: Chain) -> list[tuple[Chain, bool]]:
    """Chains that start with a parameter of the function and from which this one was computed, and whether it is the
    same value."""
    found: dict[Chain, bool] = {}
    definitions = _definitions(function)
    parameters = {each.arg for each in _parameters(function)}
    front: list[tuple[Chain, bool]] = [(chain, True)]
    seen: set[Chain] = set()
    while front and len(seen) < 100:
        current, pure = front.pop(0)
        if current in seen:
            continue
        seen.add(current)
        assigned = False
        for length in range(len(current), 0, -1):
            for value, how in definitions.get(current[:length], ()):
                same = chain_of(value)
                assigned = True
                if same is not None and how == "same":
                    front.append(((*same, *current[length:]), pure))
                else:
                    front += [(each, False) for each in _chains(value)]
            if assigned:
                break
        # A value that another method stored in self is looked up in the caller of this method.
        if current[0] in parameters and not (current[0] == "self" and (len(current) == 1 or assigned)):
            found[current] = found.get(current, False) or pure
    return list(found.items())


@functools.lru_cache(maxsize=64)
def _definitions(function: FunctionNode) -> dict[Chain, list[tuple[ast.expr, str]]]:
    found: dict[Chain, list[tuple[ast.expr, str]]] = {}

    def bind(target: ast.expr, value: ast.expr, how: str) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = (
                value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
            )
            for index, each in enumerate(target.elts):
                bind(each, values[index] if values else value, how if values else "part")
            return
        if isinstance(target, ast.Starred):
            target = target.value
        chain = chain_of(target)
        if chain is not None:
            found.setdefault(chain, []).append((value, how))

    for part in function_body(function):
        for node in ast.walk(part):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    bind(target, node.value, "same")
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
                bind(node.target, node.value, "same" if not isinstance(node, ast.AugAssign) else "part")
            elif isinstance(node, (ast.For, ast.comprehension)):
                bind(node.target, node.iter, "part")
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                bind(node.optional_vars, node.context_expr, "part")
    return found


def _passed(above: Step, step: Step, chain: Chain) -> list[tuple[Chain, bool]]:
    """The caller's argument for a parameter of the function that it called."""
    if chain[0] == "self":
        same_object = above.frame.f_locals.get("self") is step.frame.f_locals.get("self")
        return [(chain, True)] if same_object else []
    call = above.node
    if not isinstance(call, ast.Call):
        call = next((each for each in ast.walk(call) if isinstance(each, ast.Call)), call)
    if not isinstance(call, ast.Call):
        return []
    names = [each.arg for each in (*step.function.args.posonlyargs, *step.function.args.args)]
    bound = names[1:] if names[:1] in (["self"], ["cls"]) else names
    given: ast.expr | None = next((each.value for each in call.keywords if each.arg == chain[0]), None)
    if given is None and chain[0] in bound:
        at = bound.index(chain[0])
        if at < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: at + 1]):
            given = call.args[at]
    if given is None:
        starred = [each.value for each in call.args if isinstance(each, ast.Starred)]
        starred += [each.value for each in call.keywords if each.arg is None]
        return [((*each, chain[0]), False) for value in starred for each in _chains(value)] + [
            (each, False) for value in starred for each in _chains(value)
        ]
    same = chain_of(given)
    if same is not None:
        return [((*same, *chain[1:]), True)]
    return [(each, False) for each in _chains(given)]


def _in_function(function: FunctionNode, code: CodeType, traceback: TracebackType) -> ast.AST | None:
    span = position(code, traceback)
    best = None
    for part in function_body(function):
        for node in ast.walk(part):
            start, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
            if start is None or end is None:
                continue
            if span and (start, node.col_offset, end, node.end_col_offset) == span:  # type: ignore[attr-defined]
                return node
            if isinstance(node, ast.stmt) and start <= traceback.tb_lineno <= end:
                best = node
    return best


def _parameters(function: FunctionNode) -> list[ast.arg]:
    args = function.args
    most = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return most + [each for each in (args.vararg, args.kwarg) if each is not None]


def _unique(found: Iterator[Suspect]) -> list[Suspect]:
    unique: dict[tuple[Any, Chain], Suspect] = {}
    for each in found:
        known = unique.setdefault((each.owner, each.chain), each)
        known.direct = known.direct or each.direct
    return list(unique.values())
