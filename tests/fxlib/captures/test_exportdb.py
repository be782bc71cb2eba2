"""torch's own examples of what torch.export takes and refuses, from its wheel: the verdicts are those of torch."""

import copy

import pytest
import torch
from torch._export.db.examples import all_examples

from fxlib.captures.compiling import judge_compile
from fxlib.captures.exporting import judge_export
from fxlib.captures.places import owned
from tests.fxlib.captures.recorded import example_of_torch

CASES = all_examples()


def raised(call):
    try:
        call()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", sorted(CASES))
def test_verdict(name):
    case = CASES[name]
    args, kwargs = case.example_args, case.example_kwargs or {}
    if raised(lambda: copy.deepcopy(case.model)(*copy.deepcopy(args), **copy.deepcopy(kwargs))) is not None:
        pytest.fail("the example does not run in eager")
    real = example_of_torch(name, lambda: answers(case.model, args, kwargs))
    with owned(case.model):
        export, compiled = judge_export(case.model, args, kwargs), judge_compile(case.model, args, kwargs)
    assert export.outcome == ("captured" if real["export"] else "fails")
    assert compiled.fullgraph == real["fullgraph"]


def answers(model, args, kwargs):
    """Whether torch exports the model, and compiles it whole."""
    fresh = lambda: copy.deepcopy((model, args, kwargs))  # noqa: E731
    one, given, named = fresh()
    exported = raised(lambda: torch.export.export(one, given, named, strict=False))
    torch.compiler.reset()
    one, given, named = fresh()
    whole = torch.compile(one, fullgraph=True, backend="eager")
    compiled = raised(lambda: whole(*given, **named))
    torch.compiler.reset()
    return {"export": exported is None, "fullgraph": compiled is None}
