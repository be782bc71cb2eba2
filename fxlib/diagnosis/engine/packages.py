"""Installed packages: which files belong to them, and where the user's code calls their functions."""

from __future__ import annotations

import re
from pathlib import PurePath

from fxlib.ir.span import Site

__all__ = ["PACKAGE_FUNCTION", "is_installed", "library_call", "package_of", "short_path"]

PACKAGE_FUNCTION = "FX198"
"""The rule for a function of a package that cannot be traced."""

_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_METHODS = (("self",), ("cls",))


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package, which the user does not edit."""
    return _PACKAGES.search(file) is not None


def short_path(file: str) -> str:
    """The path of an installed file from its package on, ``einops/_backends.py``; other paths are unchanged."""
    return PurePath(_PACKAGES.split(file)[-1]).as_posix()


def package_of(file: str) -> str:
    """The import name of the installed package that a file belongs to."""
    return short_path(file).partition("/")[0].removesuffix(".py")


def library_call(site: Site | None) -> Site | None:
    """The place where the user's code called the package function that contains ``site``.

    None for the user's own code, and for a method: a package's module is left out as a leaf, not by wrapping its
    caller.
    """
    entry = None
    while site is not None and is_installed(site[0].co_filename):
        entry, site = site, site[2]
    if site is None or entry is None or entry[0].co_varnames[:1] in _METHODS:
        return None
    return site
