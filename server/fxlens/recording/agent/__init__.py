"""The part that runs inside the user's own program.  Standard library only until the program itself imports torch.

It is loaded by path under a unique name, so that nothing of FX Lens is on the program's path and imports of the program
cannot clash with it. Errors of the recorder are suppressed: the program never sees them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorder import Recorder

FOLDER = "FXLENS_RECORD_FOLDER"
JOURNALS = "FXLENS_RECORD_JOURNALS"
CALLS = "FXLENS_RECORD_CALLS"
"""Environment variables: the workspace, the folder of journals, and the number of calls of a model after which to
end."""


def start() -> Recorder | None:
    """Begin to record as the environment says; None if it does not request it."""
    folder, journals = os.environ.get(FOLDER), os.environ.get(JOURNALS)
    if not folder or not journals:
        return None
    from .journal import Journal
    from .recorder import Recorder, when_torch_is_imported

    recorder = Recorder(folder, Journal(journals), int(os.environ.get(CALLS) or 0))
    when_torch_is_imported(recorder.attach)
    return recorder
