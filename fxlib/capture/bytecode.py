"""Functions and frames at the level of byte code.

When Python calls a proxy's ``__iter__`` or ``__bool__``, only the calling instruction shows whether it unpacks it into
n names, or asserts it.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType, FrameType, FunctionType

__all__ = ["is_assertion", "unpack_count", "with_code"]

_UNPACK_SEQUENCE = dis.opmap["UNPACK_SEQUENCE"]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A function that differs from ``function`` in its code only."""
    made = FunctionType(code, function.__globals__, closure=function.__closure__)
    for name in ("__name__", "__defaults__", "__kwdefaults__"):
        setattr(made, name, getattr(function, name))
    return made


def unpack_count(frame: FrameType) -> int | None:
    """The number of names in ``a, b, c = value`` when that is the running instruction of ``frame``, else None."""
    code = frame.f_code.co_code
    at = frame.f_lasti
    if at < 0 or code[at] != _UNPACK_SEQUENCE:
        return None
    count, shift = code[at + 1], 8
    while at >= 2 and code[at - 2] == _EXTENDED_ARG:
        at -= 2
        count |= code[at + 1] << shift
        shift += 8
    return count


@functools.lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    skipped = {"CACHE", "EXTENDED_ARG", "NOT_TAKEN"}
    return tuple(i for i in dis.get_instructions(code) if i.opname not in skipped)


def is_assertion(frame: FrameType) -> bool:
    """Whether the running instruction of ``frame`` is the test of an ``assert`` statement.

    Such an instruction jumps over code that loads AssertionError and ends with a raise right before the target.
    """
    instructions = _instructions(frame.f_code)
    index = next((k for k, i in enumerate(instructions) if i.offset == frame.f_lasti), None)
    if index is None:
        return False
    if instructions[index].opname == "TO_BOOL":
        index += 1
    jump = instructions[index]
    if not (jump.opname.startswith("POP_JUMP") and jump.opname.endswith("IF_TRUE")) or index + 1 >= len(instructions):
        return False
    first = instructions[index + 1]
    loads = first.opname in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT") or (
        first.opname == "LOAD_GLOBAL" and first.argval == "AssertionError"
    )
    if not loads:
        return False
    # Before 3.12 an assert at the end of a loop body may be followed by code placed elsewhere, so the raise is searched
    # for between the test and its target rather than expected at one place.
    target = jump.argval if sys.version_info < (3, 13) else jump.jump_target  # type: ignore[attr-defined]
    block = [i for i in instructions[index + 1 :] if i.offset < target] or list(instructions[index + 1 :])
    return any(i.opname == "RAISE_VARARGS" for i in block)
