"""The table of rules: one entry per problem, grouped by what the user wrote. A new rule is one new entry."""

from fxlib.diagnosis.rules import (
    arguments,
    arrays,
    contexts,
    control,
    dynamic_shapes,
    iteration,
    lowering,
    modules,
    numbers,
    setup,
    state,
    torch_compile,
    torch_export,
    values,
)
from fxlib.diagnosis.rules.rule import RULES, Rule

__all__ = ["RULES", "Rule"]

_GROUPS = (
    control, iteration, numbers, arrays, modules, values, state, contexts, arguments, setup, lowering,
    torch_export, torch_compile, dynamic_shapes,
)  # fmt: skip
