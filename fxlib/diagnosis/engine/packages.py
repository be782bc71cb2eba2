"""Installed packages: whose file is whose, and where the user's code calls one of their functions."""

from __future__ import annotations

import re
from pathlib import PurePath

from fxlib.ir.span import Site

__all__ = ["PACKAGE_FUNCTION", "is_installed", "library_call", "package_of", "short_path"]

PACKAGE_FUNCTION = "FX198"
"""The rule of a function of a package that does not trace."""

_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_METHODS = (("self",), ("cls",))


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package, and so is not the user's to edit."""
    return _PACKAGES.search(file) is not None


def short_path(file: str) -> str:
    """The path of an installed file within its packages, ``einops/_backends.py``; other paths stay as they are."""
    return PurePath(_PACKAGES.split(file)[-1]).as_posix()


def package_of(file: str) -> str:
    """The name of the installed package that a file belongs to, as it is imported."""
    return short_path(file).partition("/")[0].removesuffix(".py")


def library_call(site: Site | None) -> Site | None:
    """Where the user's code called the function of an installed package that ``site`` lies in.

    None where it lies in the user's own code, or in a method: a module of a package is left out of the trace as a leaf,
    not by wrapping what calls it.
    """
    entry = None
    while site is not None and is_installed(site[0].co_filename):
        entry, site = site, site[2]
    if site is None or entry is None or entry[0].co_varnames[:1] in _METHODS:
        return None
    return site
