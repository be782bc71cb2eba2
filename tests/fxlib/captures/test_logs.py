"""What the user has turned on of torch's logs is on afterwards, and nothing else."""

import logging
import logging.config

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


CONFIGURED = {"version": 1, "root": {"level": "INFO"}}  # disables the loggers that exist
DISABLING = [lambda: logging.config.dictConfig(CONFIGURED), lambda: logging.disable(logging.WARNING)]


@pytest.mark.parametrize("disable", DISABLING, ids=["dictConfig", "disable"])
def test_logging_that_the_user_has_disabled_hides_nothing_and_stays_so(disable, caplog):
    judged = {"export": "captured", "compile": "parts", "shapes": "pinned"}

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print(x.shape)
            logging.getLogger("tests.own").warning("said")
            return torch.stack([x[i] * i for i in range(x.shape[0])])

    judge(Net(), torch.randn(3, 4), captures=judged)  # imports all that has a log
    known = {name: state[2] for name, state in loggers().items()}
    try:
        disable()
        caplog.clear()
        before = {name: state[2] for name, state in loggers().items()}
        found = judge(Net(), torch.randn(3, 4), captures=judged)
        assert {name: each.outcome for name, each in found.verdicts.items()} == judged
        assert {name: state[2] for name, state in loggers().items()} == before and not caplog.records
    finally:
        logging.disable(logging.NOTSET)
        for name, disabled in {**known, "tests.own": False}.items():
            logging.getLogger(name).disabled = disabled
