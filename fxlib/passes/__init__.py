"""Passes: functions and classes that look at graphs or change them."""

from fxlib.compat.submodules import submodule


def __getattr__(name: str) -> object:
    return submodule(__name__, name)
