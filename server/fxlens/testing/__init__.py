"""For tests of a project: `assert_captures` fails where a model cannot be captured as it should."""

from .assertion import NotCaptured, assert_captures

__all__ = ["NotCaptured", "assert_captures"]
