"""Code objects of a file before and after an edit: whether they are equivalent, and where they are."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Container, Iterator
from types import CodeType
from typing import Any

from . import moves

_SHAPE = (
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_name", "co_freevars", "co_cellvars",
)  # fmt: skip
_CONTENT = ("co_code", "co_names", "co_varnames", "co_stacksize", "co_exceptiontable")
_OPTIMIZED = 1
"""The flag of function code, which bodies of modules and classes lack."""
_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def within(code: CodeType) -> Iterator[CodeType]:
    """The code and all codes inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from within(each)


def match(
    old: CodeType, new: CodeType, ran: Container[int], live: Container[int], exchanged: dict[int, CodeType]
) -> bool:
    """Whether the new code is equivalent to the old one, except in functions that are ``live`` and have not ``ran``;
    records which code replaces which. Line numbers are ignored."""
    if _same(old, new):
        inner = [(a, b) for a, b in zip(old.co_consts, new.co_consts, strict=True) if isinstance(a, CodeType)]
        found: dict[int, CodeType] = {}
        if all(match(a, b, ran, live, found) for a, b in inner):
            exchanged.update(found)
            exchanged[id(old)] = new
            return True
    if id(old) in ran or id(old) not in live or not all(getattr(old, a) == getattr(new, a) for a in _SHAPE):
        return False
    count = old.co_argcount + old.co_kwonlyargcount + bool(old.co_flags & 4) + bool(old.co_flags & 8)
    exchanged[id(old)] = new
    return old.co_varnames[:count] == new.co_varnames[:count]


def have_moved(old: CodeType, new: CodeType) -> bool:
    """Whether equal code is on other lines."""
    if (old.co_firstlineno, [*old.co_lines()]) != (new.co_firstlineno, [*new.co_lines()]):
        return True
    pairs = zip(old.co_consts, new.co_consts, strict=True)
    return any(isinstance(a, CodeType) and have_moved(a, b) for a, b in pairs)


def moved(code: CodeType, by: int, known: dict[int, CodeType]) -> CodeType:
    """The same code shifted by so many lines; ``known`` caches moved codes by the identity of the originals."""
    if id(code) not in known:
        inner = tuple(moved(each, by, known) if isinstance(each, CodeType) else each for each in code.co_consts)
        known[id(code)] = code.replace(co_firstlineno=code.co_firstlineno + by, co_consts=inner)
    return known[id(code)]


def of_functions(parts: list[moves.Part], code: CodeType) -> list[CodeType | None]:
    """The code of each part that is a function, from its module's code; None if ambiguous."""
    found: dict[tuple[int, str], CodeType | None] = {}
    waiting = [code]
    while waiting:
        for each in waiting.pop().co_consts:
            if isinstance(each, CodeType) and each.co_flags & _OPTIMIZED:
                place = each.co_firstlineno, each.co_name
                found[place] = None if place in found else each
            elif isinstance(each, CodeType):
                waiting.append(each)
    return [
        found.get((part.begins, node.name)) if part.unit[2] and isinstance(node := part.nodes[0], _FUNCTIONS) else None
        for part in parts
    ]


def imported(tree: ast.Module) -> list[str]:
    """The names that import statements bind in a module: calls of their attributes compile differently."""
    found: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [(each.asname or each.name).split(".")[0] for each in node.names if each.name != "*"]
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            waiting += ast.iter_child_nodes(node)
    return found


def compiled(
    function: Any, classes: tuple[str, ...], imports: list[str], path: str, module: CodeType
) -> CodeType | None:
    """The code of a function in these classes, as in its module, which ``imports`` these names; None if it cannot be
    compiled alone."""
    body: Any = function
    for name in reversed(classes):
        body = ast.copy_location(ast.ClassDef(name, [], [], [body], []), function)
        body.type_params = []
    statements = [body]
    if imports:
        names = [ast.copy_location(ast.alias(name), function) for name in imports]
        statements.insert(0, ast.copy_location(ast.Import(names), function))
    flags = module.co_flags & _FUTURE
    try:
        code = compile(ast.Module(statements, []), path, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for name in (*classes, function.name):
        inner = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
        if len(inner) != 1:
            return None
        code = inner[0]
    return code


def _same(old: CodeType, new: CodeType) -> bool:
    """Whether two codes are equal, not considering inner codes."""
    names = (*_SHAPE, *_CONTENT)
    if any(getattr(old, name, None) != getattr(new, name, None) for name in names):
        return False
    return len(old.co_consts) == len(new.co_consts) and all(map(_same_constant, old.co_consts, new.co_consts))


def _same_constant(old: object, new: object) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, CodeType):
        return True
    if isinstance(old, tuple) and isinstance(new, tuple):
        return len(old) == len(new) and all(map(_same_constant, old, new))
    # 0.0 and -0.0, and the order of set members, differ as text.
    return repr(old) == repr(new) if isinstance(old, (float, complex)) else old == new
