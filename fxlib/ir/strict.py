"""Whether errors of our own are raised, as in the tests, or logged, so that a user's program does not fail because of
them."""

import os

__all__ = ["STRICT"]

STRICT = bool(os.environ.get("FXLIB_STRICT"))
