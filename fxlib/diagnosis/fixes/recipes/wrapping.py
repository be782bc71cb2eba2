"""Recipes that record a call as one opaque node: `torch.fx.wrap` on a helper, and code moved into one."""

from __future__ import annotations

import ast
import builtins
import inspect
from functools import lru_cache
from typing import Any

from torch.nn.utils import rnn

from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION
from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.imports import Bindings, wrap_call
from fxlib.diagnosis.fixes.lift import Lift, define_wrapped, lift_expression, lift_statements
from fxlib.diagnosis.fixes.names import local_names
from fxlib.diagnosis.fixes.naming import name_of_value
from fxlib.diagnosis.fixes.source import FunctionNode, Source, source_of
from fxlib.diagnosis.rules import RULES

# Builtins whose recorded result is a number or a text, so that code can compute with it.
_BUILTINS = ("len", "max", "min", "sum", "round", "abs", "sorted", "str", "hash", "isinstance", "hasattr", "callable")
_RNN = "torch.nn.utils.rnn"
_PACKING = ("pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "unpack_sequence", "unpad_sequence")


@recipe("wrap", kind="wrap")
def wrap(site: Site) -> list[Draft]:
    """Add ``torch.fx.wrap("helper")`` in the module that calls the helper with the problem.

    The helper must be a function that is called by its bare name; one called as ``m.f`` is not patched by torch.fx.
    """
    drafts = []
    for helper, caller in _helpers(site):
        if not _wrapped_already(caller, helper):
            # Preferred to rewriting a helper that others may share: one line, and the helper is unchanged.
            title = f'Record `{helper}` as one call: torch.fx.wrap("{helper}")'
            drafts.append(Draft(title, wrap_call(caller, helper), first=True, hazard=_unless_there(caller, helper)))
    for call in site.nearest(ast.Call):
        name = call.func.id if isinstance(call.func, ast.Name) else None
        if name is None or _is_local(site, name):
            continue
        known = name in _BUILTINS and hasattr(builtins, name)
        if (known or _is_module_function(site.source, name)) and not _wrapped_already(site.source, name):
            title = f'Record `{name}` as one call: torch.fx.wrap("{name}")'
            # A function of a package is recorded itself, not through another function around it.
            first = site.finding.code == PACKAGE_FUNCTION
            hazard = _unless_called(site, name) if known else _unless_there(site.source, name)
            drafts.append(Draft(title, wrap_call(site.source, name), first=first, hazard=hazard))
            break
    return drafts


def _unless_called(site: Site, builtin: str) -> str | None:
    """A wrapped builtin is recorded wherever the file calls it, also with a list of traced values, whose length tracing
    knows."""
    here = [each.func for each in site.nearest(ast.Call)]
    named = (each for each in ast.walk(site.source.tree) if isinstance(each, ast.Name) and each.id == builtin)
    elsewhere = any(each not in here for each in named)
    return f"right only if no other model needs `{builtin}()` of this file while tracing" if elsewhere else None


@recipe("lift-packing", kind="lift")
def lift_packing(site: Site) -> Draft | None:
    """Move the calls that pack and unpack sequences into wrapped functions; the layers between accept packed ones."""
    if site.function is None or _packing(site, next(iter(site.nearest(ast.Call)), None)) is None:
        return None
    made: list[Any] = []
    calls = [node for node in ast.walk(site.function) if isinstance(node, ast.Call) and _packing(site, node)]
    for node in calls:
        name = _packing(site, node) or ""
        made.append(wrapped_call(site, node, name, list(inspect.signature(getattr(rnn, name)).parameters)))
    done = [each for each in made if each is not None]
    if len(done) < len(made) or len({name for name, _ in done}) < len(done):
        return None
    if any(other in ast.walk(node) for node in calls for other in calls if other is not node):
        return None  # nested calls: their edits would overlap
    title = f"Pack and unpack in functions wrapped with torch.fx.wrap: {' and '.join(name for name, _ in done)}"
    return Draft(title, [edit for _, edits in done for edit in edits], first=True)


def wrapped_call(site: Site, call: ast.Call, name: str, places: list[str]) -> tuple[str, list[Edit]] | None:
    """The name of a wrapped function that makes a call, with the arguments that are no constants as parameters, and the
    edits that call it instead; ``places`` are the names of the positional arguments. None for a call with stars."""
    parameters, arguments, inside = [], [], []
    given = [*((None, each) for each in call.args), *((each.arg or "**", each.value) for each in call.keywords)]
    for at, (keyword, value) in enumerate(given):
        parameter = keyword or (places[at] if at < len(places) else f"value_{at}")
        if isinstance(value, ast.Starred) or not parameter.isidentifier():
            return None
        text = site.text(value)
        if not isinstance(value, ast.Constant):
            parameters.append(parameter)
            arguments.append(text)
            text = parameter
        inside.append(f"{keyword}={text}" if keyword else text)
    helper = site.source.fresh_name(f"_{name}")
    body = f"{site.source.indent_unit}return {site.text(call.func)}({', '.join(inside)})"
    edits = [
        *define_wrapped(site.source, call, helper, f"def {helper}({', '.join(parameters)}):\n{body}"),
        site.source.replace(call, f"{helper}({', '.join(arguments)})"),
    ]
    return helper, edits


def _packing(site: Site, node: Any) -> str | None:
    """The function of ``torch.nn.utils.rnn`` that is called; None for any other call."""
    module, _, name = (site.call_name(node) or "").rpartition(".") if isinstance(node, ast.Call) else ("", "", "")
    return name if module == _RNN and name in _PACKING else None


def _helpers(site: Site) -> list[tuple[str, Source]]:
    """Module-level functions on the way to the finding that were called by a bare name, innermost first."""
    found = []
    function = site.function
    outermost = _outermost(site.source, function)
    if outermost is None or isinstance(site.source.parents[outermost], ast.ClassDef):
        return []
    calls = [span for span in site.calls if span is not site.finding.span]
    for span in reversed(calls):
        text = site.read(span.file) if span.file != site.source.file else site.source.text
        if text is None:
            continue
        source = site.source if span.file == site.source.file else _parse(span.file, text)
        if source is None:
            continue
        for node in source.enclosing(span):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and _names_function(source, node.func.id, outermost.name):
                    found.append((node.func.id, source))
                break
        if found:
            return found
    if not calls:
        # No call path: assume the helper and its caller are in the same file.
        called = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == outermost.name
            for n in site.source.nodes
        )
        if called:
            found.append((outermost.name, site.source))
    return found


def _parse(file: str, text: str) -> Source | None:
    try:
        return source_of(file, text)
    except SyntaxError:
        return None


def _outermost(source: Source, function: FunctionNode | None) -> FunctionNode | None:
    while function is not None:
        outer = source.function_of(function)
        if outer is None:
            return function
        function = outer
    return None


def _unless_there(source: Source, name: str) -> str | None:
    """torch.fx looks a wrapped name up in each trace, and raises if its file has none."""
    deleted = any(
        isinstance(each, ast.Name) and isinstance(each.ctx, ast.Del) and each.id == name for each in source.nodes
    )
    for each in source.tree.body if not deleted else ():
        names = [alias.asname or alias.name for alias in getattr(each, "names", ()) if isinstance(alias, ast.alias)]
        if name in names or (isinstance(each, FunctionNode) and each.name == name):
            return None
    return f"every trace fails where this file has no `{name}`"


def _names_function(source: Source, called: str, defined: str) -> bool:
    """Whether a bare name at a call is the function ``defined``: it has this name, or is imported under it."""
    if called == defined:
        return True
    return any(
        bound == called and dotted.rpartition(".")[2] == defined for dotted, bound in Bindings.of(source).names.items()
    )


def _is_module_function(source: Source, name: str) -> bool:
    if any(isinstance(s, FunctionNode) and s.name == name for s in source.tree.body):
        return True
    imported = [dotted for dotted, bound in Bindings.of(source).names.items() if bound == name and "." in dotted]
    return any(not dotted.startswith(("torch.", "typing.")) and not name[:1].isupper() for dotted in imported)


def _is_local(site: Site, name: str) -> bool:
    return site.function is not None and name in local_names(site.function)


def _wrapped_already(source: Source, name: str) -> bool:
    return name in _wrapped(source)


@lru_cache(maxsize=8)
def _wrapped(source: Source) -> frozenset[Any]:
    """The functions that calls of ``wrap`` name, as strings or directly; read once for all findings in a file."""
    names = set()
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", None)) == "wrap":
            argument = node.args[0]
            if isinstance(argument, ast.Constant):
                names.add(argument.value)
            elif isinstance(argument, ast.Name):
                names.add(argument.id)
    return frozenset(names)


@recipe("lift-block", kind="lift")
def lift_block(site: Site) -> list[Draft]:
    """Move the statement into a wrapped function, with the names that it reads as parameters."""
    if site.function is None or site.statement is None:
        return []
    drafts = []
    for block, what in _blocks(site):
        lift = lift_statements(site.source, block, site.function)
        if lift.edits is not None:
            drafts.append(_lifted(lift, what))
            break
    return drafts


def _blocks(site: Site) -> list[tuple[list[ast.stmt], str]]:
    """Blocks worth lifting, smallest first."""
    statement = site.statement
    assert statement is not None and site.function is not None
    body = site.function.body[ast.get_docstring(site.function) is not None :]
    # A helper method that returns early is moved as a whole; not the end of forward, which is the model itself.
    helper = site.function.name not in ("forward", "__init__")
    chain = [statement]
    for ancestor in site.source.ancestors(statement):
        if isinstance(ancestor, FunctionNode | ast.ClassDef | ast.Module):
            break
        if isinstance(ancestor, ast.stmt):
            chain.append(ancestor)
    names = {ast.If: "`if`", ast.For: "loop", ast.While: "loop", ast.With: "`with`", ast.Try: "`try`"}
    blocks = []
    for candidate in chain[:3]:
        siblings, index = site.source.block_of(candidate)
        what = names.get(type(candidate), "statement")
        blocks.append(([candidate], what))
        rest = siblings[index:]
        early = helper and any(isinstance(n, ast.Return) for n in ast.walk(candidate))
        if early and siblings is site.function.body and rest is not body:
            blocks.append((body, f"body of `{site.function.name}`"))
        if len(rest) > 1 and siblings is site.function.body and (len(rest) <= 4 or early):
            blocks.append((rest, f"{what} and what follows"))
    return blocks


@recipe("lift-expression", kind="lift")
def lift_expression_recipe(site: Site) -> list[Draft]:
    """Move the expression into a wrapped function that returns it."""
    if site.function is None:
        return []
    question = RULES[site.finding.code].question
    for node in site.nearest(ast.expr):
        if isinstance(node, ast.Name | ast.Constant | ast.Starred | ast.Lambda | ast.GeneratorExp):
            continue
        if question and (node is site.node or isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Compare)):
            continue
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or _is_callee(site, node):
            continue
        lift = lift_expression(site.source, node, site.function, name_of_value(site.source, node, site.function))
        if lift.edits is not None:
            return [_lifted(lift, "expression")]
    return []


def _is_callee(site: Site, node: ast.AST) -> bool:
    parent = site.source.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _lifted(lift: Lift, what: str) -> Draft:
    title = f"Move the {what} into a function wrapped with torch.fx.wrap: {lift.name}"
    return Draft(title, lift.edits or [], hazard=lift.hazard)
