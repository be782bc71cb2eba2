"""``fxlens code FILE[::Class]``: the forward that the graph generates."""

from __future__ import annotations

import argparse

from . import one_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    one_target.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    found = one_target.trace(arguments)
    if isinstance(found, int):
        return found
    target, _ = found
    print(target["code"].rstrip())
    return 0 if target["status"] == "traced" else 1
