"""Recipes for distributions, whose constructors look at what they are given."""

from __future__ import annotations

import ast
import inspect

from torch import distributions

from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.lift import define_wrapped
from fxlib.diagnosis.fixes.naming import snake_case


@recipe("wrap-distribution", kind="lift")
def wrap_distribution(site: Site) -> Draft | None:
    """Make the distribution in a wrapped function of its parameters."""
    call = next(iter(site.nearest(ast.Call)), None)
    if not isinstance(call, ast.Call) or site.function is None:
        return None
    name = (site.call_name(call) or "").rpartition(".")[2]
    places = _parameters(site, name)
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
    helper = site.source.fresh_name(f"_{snake_case(name)}")
    body = f"{site.source.indent_unit}return {site.text(call.func)}({', '.join(inside)})"
    edits = [
        *define_wrapped(site.source, call, helper, f"def {helper}({', '.join(parameters)}):\n{body}"),
        site.source.replace(call, f"{helper}({', '.join(arguments)})"),
    ]
    return Draft(f"Call it in a function wrapped with torch.fx.wrap: {helper}", edits)


def _parameters(site: Site, name: str) -> list[str]:
    """What the constructor calls its arguments: torch's own, or that of the class that one of the file extends."""
    own_classes = {each.name: each for each in site.source.tree.body if isinstance(each, ast.ClassDef)}
    for _ in range(5):
        own, kind = own_classes.pop(name, None), getattr(distributions, name, None)
        if own is None and callable(kind):
            return list(inspect.signature(kind).parameters)
        if own is None or not own.bases or any(getattr(each, "name", "") == "__init__" for each in own.body):
            break
        name = ast.unparse(own.bases[0]).rpartition(".")[2]
    return []
