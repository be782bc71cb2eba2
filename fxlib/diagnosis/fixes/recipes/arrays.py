"""Recipes for what forward computes with NumPy in between: the same with torch."""

from __future__ import annotations

import ast

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.recipes.numbers import torch_call


@recipe("without-numpy", assumes="what follows treats a tensor as it treats an array")
def without_numpy(site: Site) -> Draft | None:
    """Replace `a = x.numpy()` with `a = x.detach()`, and NumPy functions in forward with those of torch."""
    if site.function is None:
        return None
    edits: list[Edit] = []
    left = {each for each in ast.walk(site.function) if isinstance(each, ast.Name) and _is_numpy(site, each)}
    arrays = 0
    for node in ast.walk(site.function):
        if not isinstance(node, ast.Call):
            continue
        name = site.call_name(node) or ""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and not node.args and not node.keywords:
            arrays += 1
            _, dot, after = site.text(node).rpartition(".numpy")
            line, column = site.source.range_of(node)[1]
            if "\n" in after:
                return None
            detached = any(isinstance(each, ast.Attribute) and each.attr == "detach" for each in ast.walk(node))
            start = (line, column - len(f"{dot}{after}".encode()))
            edits.append(site.source.replace_range(start, (line, column), "" if detached else ".detach()"))
        elif name == "torch.from_numpy" and len(node.args) == 1:
            (start, end), (first, last) = site.source.range_of(node), site.source.range_of(node.args[0])
            plain = isinstance(node.args[0], ast.Call | ast.Name | ast.Attribute | ast.Subscript)
            edits.append(site.source.replace_range(start, first, "" if plain else "("))
            edits.append(site.source.replace_range(last, end, "" if plain else ")"))
        elif name.startswith("numpy."):
            found = torch_call(site, node)
            if found is None:
                return None
            edits += found
            left -= set(ast.walk(node.func))
    return Draft("Compute with torch", list(dict.fromkeys(edits))) if arrays and not left else None


def _is_numpy(site: Site, node: ast.Name) -> bool:
    return (site.bindings.resolve(node) or "").split(".")[0] == "numpy"
