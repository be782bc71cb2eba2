"""Whatever a program does with graphs, torch.fx and fxlib say the same."""

import pytest

from .libraries import both
from .programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_torch_fx(name):
    theirs, ours = both(PROGRAMS[name])
    assert ours == theirs
