"""Runs one program on torch.fx and on fxlib and compares what it says."""

import re
from collections.abc import Callable
from typing import Any

import torch.fx
import torch.fx._pytree

import fxlib

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_OWN_PATHS = re.compile(r"\btorch\.fx\.(?!_symbolic_trace\.wrap)|\bfxlib\.")
_SOURCE_NAME = re.compile(r"<eval_with_key>\.(fxlib_)?\d+")


def plain(text: str) -> str:
    """Text without what must differ between two libraries and two runs."""
    text = _ADDRESS.sub("0x", text)
    return _SOURCE_NAME.sub("<eval_with_key>", _OWN_PATHS.sub("FX.", text))


def outcome(program: Callable[[Any], Any], library: Any) -> str:
    """What the program returns, or the class and the text of what it raises."""
    try:
        return plain(repr(program(library)) if not isinstance(result := program(library), str) else result)
    except Exception as error:
        return plain(f"{type(error).__name__}: {error}")


def both(program: Callable[[Any], Any]) -> tuple[str, str]:
    return outcome(program, torch.fx), outcome(program, fxlib)
