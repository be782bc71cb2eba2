"""Passes as objects, their order, and partitions by what a backend supports."""

from fxlib.compat.submodules import submodule


def __getattr__(name: str) -> object:
    return submodule(__name__, name)
