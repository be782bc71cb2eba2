"""Recipes for distributions, whose constructors read the values of their arguments."""

from __future__ import annotations

import ast
import inspect

from torch import distributions

from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.naming import snake_case
from fxlib.diagnosis.fixes.recipes.wrapping import wrapped_call


@recipe("wrap-distribution", kind="lift")
def wrap_distribution(site: Site) -> Draft | None:
    """Construct the distribution in a wrapped function of its parameters."""
    call = next(iter(site.nearest(ast.Call)), None)
    if not isinstance(call, ast.Call) or site.function is None:
        return None
    name = (site.call_name(call) or "").rpartition(".")[2]
    wrapped = wrapped_call(site, call, snake_case(name), _parameters(site, name))
    if wrapped is None:
        return None
    helper, edits = wrapped
    return Draft(f"Call it in a function wrapped with torch.fx.wrap: {helper}", edits)


def _parameters(site: Site, name: str) -> list[str]:
    """The parameter names of the constructor: of torch's class, or of the one that the file's class extends."""
    own_classes = {each.name: each for each in site.source.tree.body if isinstance(each, ast.ClassDef)}
    for _ in range(5):
        own, kind = own_classes.pop(name, None), getattr(distributions, name, None)
        if own is None and callable(kind):
            return list(inspect.signature(kind).parameters)
        if own is None or not own.bases or any(getattr(each, "name", "") == "__init__" for each in own.body):
            break
        name = ast.unparse(own.bases[0]).rpartition(".")[2]
    return []
