"""The part that runs inside the user's own program.  Standard library only until the program itself imports torch.

It is loaded by path, under a name of its own, so that nothing of FX Lens is on the program's path and nothing that the
program imports can be mistaken for it.  What it cannot do it leaves: the program never sees an error of the recorder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorder import Recorder

FOLDER = "FXLENS_RECORD_FOLDER"
JOURNALS = "FXLENS_RECORD_JOURNALS"
CALLS = "FXLENS_RECORD_CALLS"
"""Environment of the program: the workspace, where journals are written, and after how many calls of a model to end."""


def start() -> Recorder | None:
    """Begin to record as the environment says; None where it does not ask for it."""
    folder, journals = os.environ.get(FOLDER), os.environ.get(JOURNALS)
    if not folder or not journals:
        return None
    from .journal import Journal
    from .recorder import Recorder, when_torch_is_imported

    recorder = Recorder(folder, Journal(journals), int(os.environ.get(CALLS) or 0))
    when_torch_is_imported(recorder.attach)
    return recorder
