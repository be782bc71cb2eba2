"""torch's own examples of what torch.export accepts and rejects, from its wheel: the verdicts equal torch's."""

import copy

import pytest
import torch
from torch._export.db.examples import all_examples

from fxlib.captures.compiling import judge_compile
from fxlib.captures.exporting import judge_export
from fxlib.captures.places import owned

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
    exported = raised(
        lambda: torch.export.export(copy.deepcopy(case.model), copy.deepcopy(args), copy.deepcopy(kwargs), strict=False)
    )
    torch.compiler.reset()
    whole = torch.compile(copy.deepcopy(case.model), fullgraph=True, backend="eager")
    compiled = raised(lambda: whole(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
    torch.compiler.reset()
    with owned(case.model):
        export, compiled_too = judge_export(case.model, args, kwargs), judge_compile(case.model, args, kwargs)
    assert export.outcome == ("captured" if exported is None else "fails")
    assert compiled_too.fullgraph == (compiled is None)
