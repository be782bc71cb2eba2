"""What the user has turned on of torch's logs is on afterwards, and nothing else."""

import logging

import pytest
import torch

from fxlib.captures import judge
from tests.fxlib.captures.collection.control import Branch


def loggers():
    named = [name for name in logging.root.manager.loggerDict if name == "torch" or name.startswith("torch.")]
    known = {name: logging.getLogger(name) for name in named}
    return {name: (each.level, each.propagate, each.disabled, [*each.handlers]) for name, each in known.items()}


@pytest.mark.parametrize("wanted", [{}, {"recompiles": True, "dynamo": logging.INFO}], ids=["nothing", "some"])
def test_logs_are_as_before(wanted):
    judge(Branch(), Branch.inputs(), captures=("export", "compile", "shapes"))  # imports all that has a log
    torch._logging.set_logs(**wanted)
    try:
        before = loggers()
        found = judge(Branch(), Branch.inputs(), captures=("export", "compile", "shapes"))
        assert found.verdicts["compile"].breaks == 1
        after = loggers()
        assert {name: after[name] for name in before} == before
    finally:
        torch._logging.set_logs()
