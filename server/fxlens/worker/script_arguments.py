"""An empty command line for a script that is executed for its classes, even if its parser requires arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

assumed: list[str] = []
"""Required arguments of scripts in this process that got assumed values."""


@contextmanager
def none_required(path: str) -> Iterator[None]:
    """Parsers get no arguments, and required ones are assumed: the first choice, 1, or an empty string."""
    original = argparse.ArgumentParser.parse_known_args

    def parse_known_args(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        if args is None:
            for action in self._actions:
                _relax(action)
        return original(self, args, namespace)

    sys.argv = [path]
    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_known_args = original  # type: ignore[method-assign]


def _relax(action: argparse.Action) -> None:
    if not action.required or isinstance(action, argparse._SubParsersAction):
        return
    action.required = False
    assumed.append(action.dest)
    if not action.option_strings:
        action.nargs = "*" if action.nargs in ("+", "*") or isinstance(action.nargs, int) else "?"
    if action.default is None:
        value = _value(action)
        action.default = [value] if action.nargs == "*" else value


def _value(action: argparse.Action) -> Any:
    if action.choices:
        return next(iter(action.choices))
    return action.type(1) if action.type in (int, float) else ""
