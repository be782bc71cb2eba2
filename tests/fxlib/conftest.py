"""Tests of fxlib run in one process with those that use torch.compile."""

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def distributions_check_their_arguments():
    """As in a new process: torch.compile switches this off when it is first used."""
    Distribution.set_default_validate_args(True)
