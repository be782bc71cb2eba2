"""torch's own examples of what torch.export takes and refuses, from its wheel: the verdicts are those of torch."""

import copy

import pytest
import torch
from torch._export.db.examples import all_examples

from fxlib.captures import judge

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
    judgement = judge(case.model, (*args,) if not kwargs else bound(case.model, args, kwargs))
    assert judgement.verdicts["export"].outcome == ("captured" if exported is None else "fails")
    assert judgement.verdicts["compile"].fullgraph == (compiled is None)


def bound(model, args, kwargs):
    """The arguments by name, as `judge` takes them where some are given so."""
    import inspect

    return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
