"""Recipes for distributions, whose constructors look at what they are given."""

from __future__ import annotations

import ast
import inspect

from torch import distributions

from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.lift import define_wrapped


@recipe("wrap-distribution", kind="lift")
def wrap_distribution(site: Site) -> Draft | None:
    """Construct the distribution in a wrapped function of its parameters."""
    for call in site.nearest(ast.Call):
        name = (site.call_name(call) or "").rpartition(".")[2]
        kind = getattr(distributions, name, None)
        if site.function is not None and isinstance(kind, type):
            return _wrapped(site, call, name, list(inspect.signature(kind).parameters))
    return None


def _wrapped(site: Site, call: ast.Call, name: str, places: list[str]) -> Draft | None:
    parameters, arguments, inside = [], [], []
    given = [*((None, each) for each in call.args), *((each.arg or "**", each.value) for each in call.keywords)]
    for at, (keyword, value) in enumerate(given):
        parameter = keyword or (places[at] if at < len(places) else "*")
        if isinstance(value, ast.Starred) or not parameter.isidentifier():
            return None
        text = site.text(value)
        if not isinstance(value, ast.Constant):
            parameters.append(parameter)
            arguments.append(text)
            text = parameter
        inside.append(f"{keyword}={text}" if keyword else text)
    helper = site.source.fresh_name(f"_{name.lower()}")
    body = f"{site.source.indent_unit}return {site.text(call.func)}({', '.join(inside)})"
    edits = [
        *define_wrapped(site.source, call, helper, f"def {helper}({', '.join(parameters)}):\n{body}"),
        site.source.replace(call, f"{helper}({', '.join(arguments)})"),
    ]
    return Draft(f"Construct it in a function wrapped with torch.fx.wrap: {helper}", edits)
