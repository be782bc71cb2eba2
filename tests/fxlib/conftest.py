"""Tests of fxlib run in one process with those that use torch.compile."""

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def distributions_check_their_arguments():
    """As in a new process, since the first use of torch.compile switches this off."""
    Distribution.set_default_validate_args(True)
