"""Recipes for objects among the inputs and results of a program: their classes, registered."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe

_KIND = re.compile(r"<class '([^']+)'>")


@recipe("register-dataclass", assumes="nobody else registers the class")
def register_dataclass(site: Site) -> Draft | None:
    """Register a dataclass among the inputs or results with `torch.export.register_dataclass`."""
    found = _own_class(site)
    if found is None or not any("dataclass" in ast.unparse(each) for each in found[1].decorator_list):
        return None
    function, edits = site.need("torch.export.register_dataclass")
    return Draft(f"Register {found[0]}", [*edits, _below(site, found[1], f"{function}({found[0]})")])


@recipe("register-class", assumes="nobody else registers the class")
def register_class(site: Site) -> Draft | None:
    """Register a class with `torch.utils._pytree.register_pytree_node`, if its constructor takes its attributes by
    name."""
    found, kind = _own_class(site), _kind(site)
    if found is not None and found[1].decorator_list:
        return None
    name, edits = (found[0], []) if found is not None else site.need(kind)
    if found is None and (not kind.partition(".")[2] or edits):
        return None  # the file does not import this class
    pytree, more = site.need("torch.utils._pytree")
    unit = site.source.indent_unit
    key = f"{pytree}.GetAttrKey(name)"
    text = "\n".join(
        [
            f"{pytree}.register_pytree_node(",
            f"{unit}{name},",
            f"{unit}lambda each: (list(vars(each).values()), list(vars(each))),",
            f"{unit}lambda values, names: {name}(**dict(zip(names, values))),",
            f"{unit}flatten_with_keys_fn=lambda each: (",
            f"{unit}{unit}[({key}, value) for name, value in vars(each).items()],",
            f"{unit}{unit}list(vars(each)),",
            f"{unit}),",
            ")",
        ]
    )
    edit = _below(site, found[1], text) if found is not None else _above_classes(site, text)
    return Draft(f"Register {name}", [*more, edit])


def _kind(site: Site) -> str:
    """The class named in torch's message, with its module."""
    related = getattr(site.finding, "related", ())
    texts = [each.message for each in related if getattr(each, "kind", "") == "torch"]
    return next((found[1] for text in texts if (found := _KIND.search(text))), "")


def _own_class(site: Site) -> tuple[str, ast.ClassDef] | None:
    """The class of the file that torch's message or the expression names, by its name in the file."""
    kind = _kind(site)
    mentioned = {ast.unparse(each) for each in ast.walk(site.node) if isinstance(each, ast.Name | ast.Attribute)}
    mentioned |= {
        each.value for each in ast.walk(site.node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    for name, node in _classes(site.source.tree.body):
        if kind.endswith(f".{name}") if kind else name in mentioned:
            return name, node
    return None


def _classes(body: list[ast.stmt], around: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield around + each.name, each
            yield from _classes(each.body, f"{around}{each.name}.")


def _below(site: Site, node: ast.AST, text: str) -> Edit:
    """An insertion of module-level text below the statement that contains a node."""
    return site.source.insert_line(site.source.line_below(site.source.top_level_of(node)), f"\n\n{text}")


def _above_classes(site: Site, text: str) -> Edit:
    first = next(each for each in site.source.tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef))
    return site.source.insert_line(site.source.line_above(first), f"{text}\n\n")
