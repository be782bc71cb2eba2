"""Codes of findings that say that a file or a model was not judged."""

ENDED = frozenset({"FX304", "FX305", "FX306", "FX307"})
"""Its process did not get to the end: too slow, crashed, ended by the code, too large."""
NOT_RUN = ENDED | {"FX301", "FX310"}
"""Its code was not run to the end."""
NOT_JUDGED = NOT_RUN | {"FX199", "FX308", "FX309"}
"""All of them."""
PASSING = ENDED | {"FX301", "FX309"}
"""The next run may have another result although no file has changed."""
