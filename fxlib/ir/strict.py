"""Whether mistakes of our own are let through, as in the tests, or logged, so that nobody's program fails for them."""

import os

__all__ = ["STRICT"]

STRICT = bool(os.environ.get("FXLIB_STRICT"))
