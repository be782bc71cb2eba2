"""Moving a piece of forward into a wrapped function: the text of the new function and of the call."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from fxlib.diagnosis.engine.forms import may_catch
from fxlib.diagnosis.engine.writes import CHANGING
from fxlib.diagnosis.fixes.edits import Edit, apply_edits
from fxlib.diagnosis.fixes.evaluated import always, evaluated
from fxlib.diagnosis.fixes.imports import wrap_call
from fxlib.diagnosis.fixes.members import self_chain, self_name
from fxlib.diagnosis.fixes.names import Flow, analyse, surely_bound
from fxlib.diagnosis.fixes.naming import name_of_block
from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["Lift", "define_wrapped", "lift_expression", "lift_statements", "live_after"]


@dataclass
class Lift:
    """The edits that move code into a function, or the obstacle that forbids it."""

    name: str = ""
    edits: list[Edit] | None = None
    obstacle: str | None = None
    hazard: str | None = None


def define_wrapped(source: Source, at: ast.AST, name: str, definition: str) -> list[Edit]:
    """Insert a function and its `wrap` call at module scope, before the top-level statement that holds ``at``."""
    line = source.line_above(source.top_level_of(at))
    *imports, call = wrap_call(source, name, line)
    blank = 0
    while blank < min(2, line - 1) and not source.lines[line - 2 - blank].strip():
        blank += 1
    above = "\n" * (2 - blank) if line > 1 else ""
    text = f"{above}{definition}\n\n\n{call.text.rstrip()}\n\n"
    return [*imports, source.insert_line(line, text)]


def live_after(
    source: Source, block: list[ast.stmt], function: FunctionNode, names: list[str], read: Sequence[str] = ()
) -> list[str]:
    """Those of ``names`` that are read outside of a block: after it, or anywhere in a loop around both, or that the
    block itself has ``read`` from before, as it does again in the next iteration."""
    start, end = (block[0].lineno, block[0].col_offset), (block[-1].end_lineno, block[-1].end_col_offset)
    loops = [a for a in source.ancestors(block[0]) if isinstance(a, ast.For | ast.While)]
    in_loop = {id(n) for loop in loops if source.function_of(loop) is function for n in ast.walk(loop)}
    live = set(read) if in_loop else set()
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name, reads = node.target, True
        elif isinstance(node, ast.Name):
            name, reads = node, isinstance(node.ctx, ast.Load | ast.Del)
        else:
            continue
        place = (name.lineno, name.col_offset)
        if reads and not start <= place < end and (place >= end or id(node) in in_loop):
            live.add(name.id)
    return [name for name in names if name in live and (in_loop or not _bound_next(source, block, name))]


def _bound_next(source: Source, block: list[ast.stmt], name: str) -> bool:
    """Whether the next statement after a block that mentions a name assigns it without reading it."""
    siblings, index = source.block_of(block[-1])
    for statement in siblings[index + 1 :]:
        mentions = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name]
        if mentions:
            return isinstance(statement, ast.Assign) and all(isinstance(n.ctx, ast.Store) for n in mentions)
    return False


def _parameters(
    source: Source, function: FunctionNode, flow: Flow, more: list[str], pieces: Sequence[ast.AST]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Parameter names, argument texts, and the parameter of each attribute of self."""
    me = self_name(source, function)
    parameters = [*flow.reads, *(n for n in more if n not in flow.reads)]
    arguments = list(parameters)
    taken = {*parameters, *flow.writes, *dir(builtins)}
    for node in (node for piece in pieces for node in ast.walk(piece)):
        taken |= {name for part in ("id", "arg", "name") if isinstance(name := getattr(node, part, None), str)}
    owner = source.class_of(function)
    nested = (
        {each.name for each in owner.body if isinstance(each, ast.ClassDef)} if owner in source.tree.body else set()
    )
    renamed = {}
    for attribute in flow.self_attributes:
        if owner is not None and attribute in nested:  # a class cannot be an argument in a graph
            renamed[attribute] = f"{owner.name}.{attribute}"
            continue
        name = attribute.rpartition(".")[2].lstrip("_") or attribute
        while name in taken:
            name += "_"
        taken.add(name)
        renamed[attribute] = name
        parameters.append(name)
        arguments.append(f"{me}.{attribute}")
    return parameters, arguments, renamed


def _without_self(source: Source, pieces: list, renamed: dict[str, str], me: str | None) -> list[Edit]:
    edits = []
    replaced: set[ast.AST] = set()
    for node in (node for piece in pieces for node in ast.walk(piece)):
        if not isinstance(node, ast.Attribute):
            continue
        if source.parents.get(node) in replaced:
            # The prefix of a path that is replaced as a whole.
            replaced.add(node)
        elif (path := self_chain(node, me)) in renamed:
            replaced.add(node)
            edits.append(source.replace(node, renamed[path]))
    return edits


def _moved_text(source: Source, block: list[ast.stmt], edits: list[Edit]) -> str:
    """The lines of a block with edits applied, indented as the body of a module-level function."""
    first, last = block[0].lineno, source.line_below(block[-1]) - 1
    indent = source.indent_of(block[0])
    untouchable = set()
    for statement in block:
        for node in ast.walk(statement):
            if isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
            ):
                untouchable |= set(range(node.lineno + 1, source.line_below(node)))
    text = apply_edits(source.text, edits)
    lines = Source(source.file, text).lines
    lines = lines[first - 1 : last + len(lines) - len(source.lines)]  # an edit may join lines
    moved = []
    for number, line in enumerate(lines, first):
        bare = line.rstrip("\r\n")
        if number in untouchable:
            moved.append(bare)
        elif not bare.strip():
            moved.append("")
        else:
            moved.append(source.indent_unit + (bare[len(indent) :] if bare.startswith(indent) else bare.lstrip()))
    return "\n".join(moved)


def _ends_function(block: list[ast.stmt], function: FunctionNode) -> bool:
    """Whether a block runs to the end of its function and returns a value on every path."""
    if block[-1] is not function.body[-1] or not _returns(block[-1]):
        return False
    returns = [n for statement in block for n in ast.walk(statement) if isinstance(n, ast.Return)]
    return all(n.value is not None for n in returns)


def _returns(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and _returns(statement.body[-1]) and _returns(statement.orelse[-1])
    if isinstance(statement, ast.With):
        return _returns(statement.body[-1])
    return isinstance(statement, ast.Return)


def lift_statements(source: Source, block: list[ast.stmt], function: FunctionNode, wanted: str | None = None) -> Lift:
    """Move consecutive statements of a function into a wrapped one.

    Names that they read become parameters, attributes of ``self`` included; names that they bind and that are read
    later are returned. The creation of a list that they fill moves with them. Refused where they leave the function or
    a loop around them, use ``self`` for anything but reading attributes, call submodules, or bind nothing that is read
    later.
    """
    if not source.starts_line(block[0]) or not source.ends_line(block[-1]):
        return Lift(obstacle="it shares its line with other code")
    first = block[0]
    if len(block) == 1 and isinstance(first, ast.Assign) and len(first.targets) == 1:
        target = first.targets[0]
        if isinstance(target, ast.Name):
            name = wanted or name_of_block(source, block, [target.id], function)
            return lift_expression(source, first.value, function, name)
    ending = _ends_function(block, function)
    started = _starts_of(source, block)
    moved = [*started, *block]
    flow = analyse(source, moved, function, may_return=ending)
    if flow.obstacle:
        return Lift(obstacle=flow.obstacle)
    changed = [name for name in changed_in_place(block) if name in flow.reads and name not in flow.writes]
    results = [] if ending else live_after(source, block, function, [*flow.writes, *changed], flow.reads)
    if not results and not ending:
        return Lift(obstacle="nothing that it computes is read later")
    sometimes = [name for name in results if name not in flow.always]
    if any(map(may_catch, source.ancestors(block[0]))):
        return Lift(obstacle="what it has computed until an exception may be used")
    if (late := _read_late(function, moved, flow.writes)) is not None:
        return Lift(obstacle=f"a function that is defined outside of it reads `{late}`")
    bound = surely_bound(source, function, block[0])
    for name in [*sometimes, *flow.reads]:
        if name not in bound:
            return Lift(obstacle=f"`{name}` may have no value")
    parameters, arguments, renamed = _parameters(source, function, flow, sometimes, block)
    if not parameters:
        return Lift(obstacle="it reads no local value, so a wrapped function would run while tracing")
    name = source.fresh_name(wanted or name_of_block(source, block, results, function))
    without_self = _without_self(source, block, renamed, self_name(source, function))
    texts = [*(_moved_text(source, [each], []) for each in started), _moved_text(source, block, without_self)]
    if not ending:
        texts.append(f"{source.indent_unit}return {', '.join(results)}")
    definition = "\n".join([f"def {name}({', '.join(parameters)}):", *texts])
    call = f"{name}({', '.join(arguments)})"
    replacement = f"return {call}" if ending else f"{', '.join(results)} = {call}"
    start, end = source.range_of(block[0])[0], source.line_end(block[-1])
    return Lift(
        name,
        [
            *define_wrapped(source, function, name, definition),
            *(source.replace_range((s.lineno, 0), (source.line_below(s), 0), "") for s in started),
            source.replace_range(start, end, replacement),
        ],
        hazard=_read_early(source, function, block, renamed),
    )


def _read_late(function: FunctionNode, block: list[ast.stmt], names: list[str]) -> str | None:
    """Which of the names a function or generator that is defined outside of a block reads, whenever it runs."""
    inside = {id(each) for statement in block for each in ast.walk(statement)}
    for node in ast.walk(function):
        if node is not function and isinstance(node, FunctionNode | ast.Lambda | ast.GeneratorExp):
            read = (
                {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if id(node) not in inside else set()
            )
            if found := read.intersection(names):
                return min(found)
    return None


def changed_in_place(block: list[ast.stmt]) -> list[str]:
    """The names of lists and dictionaries that a block fills or changes."""
    found: dict[str, None] = {}
    for node in (node for statement in block for node in ast.walk(statement)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            changed: ast.AST = node.func.value
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = node.value
        else:
            continue
        if isinstance(changed, ast.Name):
            found[changed.id] = None
    return list(found)


def _starts_of(source: Source, block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements ``name = []`` before a block that fills these, where nothing in between mentions the name."""
    siblings, index = source.block_of(block[0])
    found = []
    for name in changed_in_place(block):
        for earlier in reversed(siblings[:index]):
            if not any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(earlier)):
                continue
            if _makes_empty(earlier) and source.starts_line(earlier) and source.ends_line(earlier):
                found.append(earlier)
            break
    return sorted(found, key=lambda statement: statement.lineno)


def _makes_empty(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    value = statement.value
    empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)
    made = isinstance(value, ast.Call) and ast.unparse(value) in ("list()", "dict()")
    return isinstance(statement.targets[0], ast.Name) and (empty or made)


def lift_expression(source: Source, node: ast.expr, function: FunctionNode, wanted: str) -> Lift:
    """Move one expression into a wrapped function that returns it."""
    flow = analyse(source, node, function)
    if flow.obstacle:
        return Lift(obstacle=flow.obstacle)
    if flow.writes:
        return Lift(obstacle=f"it binds `{flow.writes[0]}`")
    statement = source.statement_of(node)
    bound = surely_bound(source, function, statement) if statement is not None else set()
    for name in flow.reads:
        if name not in bound:
            return Lift(obstacle=f"`{name}` may have no value")
    bound_by_comprehension = _comprehension_names(source, node)
    parameters, arguments, renamed = _parameters(source, function, flow, [], [node])
    for name in bound_by_comprehension:
        if name not in parameters and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
            parameters.append(name)
            arguments.append(name)
    if not parameters:
        return Lift(obstacle="it reads no local value, so a wrapped function would run while tracing")
    name = source.fresh_name(wanted)
    edits = _without_self(source, [node], renamed, self_name(source, function))
    shifted = Source(source.file, apply_edits(source.text, edits)) if edits else source
    start, (line, column) = source.range_of(node)
    added = sum(len(e.text.encode()) - (e.end_column - e.column) for e in edits if e.line == line)
    text = shifted.between(start, (line, column + added))
    if start[0] != line:
        text = f"({text})"
    definition = f"def {name}({', '.join(parameters)}):\n{source.indent_unit}return {text}"
    call = f"{name}({', '.join(arguments)})"
    changes = [*define_wrapped(source, function, name, definition), source.replace(node, call)]
    return Lift(name, changes, hazard=_read_early(source, function, [node], renamed))


def _read_early(
    source: Source, function: FunctionNode, pieces: Sequence[ast.AST], renamed: dict[str, str]
) -> str | None:
    """Which attribute the call reads before the condition that guards it in the code, and that may not be there; or
    that the new function takes from the class, where a class that inherits from it may have another."""
    me = self_name(source, function)
    first = pieces[:1] if isinstance(pieces[0], ast.expr) else always(list(pieces))  # type: ignore[arg-type]
    read = {self_chain(node, me) for piece in first for node in evaluated(piece)}  # type: ignore[arg-type]
    for attribute, name in renamed.items():
        if "." in name:
            return f"`{me}.{attribute}` is then `{name}` in the classes that inherit from it, too"
        if attribute not in read and attribute != "training":
            return f"`{me}.{attribute}` is then read in every call, and must be there"
    return None


def _comprehension_names(source: Source, node: ast.AST) -> list[str]:
    """The names that comprehensions around an expression bind."""
    names = []
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, ast.stmt):
            break
        for generator in getattr(ancestor, "generators", []):
            names += [n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)]
    return names
