"""For a project's tests: `assert_captures` fails if a model is not captured as required."""

from .assertion import NotCaptured, assert_captures

__all__ = ["NotCaptured", "assert_captures"]
