"""Where in the user's program an operation is recorded: the tracer's part of `fxlib.ir.span`.

A site is taken for every node, so results for the current frame are cached: while a function runs, its callers do not
change, so its next operation has the same parent.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from fxlib.ir import span as _span

__all__ = ["EndlessTrace", "SiteTaker", "code_of_subclass"]

_BOUNDARY = _span.BOUNDARY
# Code that runs for more than one value, so its caller can change during the life of its frame.
_RESUMABLE = 0x20 | 0x80 | 0x100 | 0x200


# Attributes that a trace sets and restores at its end.
_AT_FIRST = {"_site_base": None, "_site_frame": None, "_site_parent": None, "_site_inner": None}


class EndlessTrace(RuntimeError):
    """The trace would not end, as torch.fx's does not."""


class SiteTaker:
    """Takes sites, and adds them to error messages. The attributes are set while `Tracer.trace` runs."""

    _record_forward_stack_traces_only: bool = False

    _tracing: bool = False
    _own_code: frozenset[int] = frozenset()
    #: The call site of the module that is running.
    _site_base: _span.Site | None = None
    #: The user's frame that recorded last, and the site of its caller.
    _site_frame: FrameType | None = None
    _site_parent: _span.Site | None = None
    #: A frame of torch right inside the boundary; its operations get the site of the call.
    _site_inner: FrameType | None = None

    def current_site(self) -> _span.Site | None:
        """The site (see `fxlib.ir.span`) of the expression of the user's program that is being evaluated, or None.

        For tracers that report where an operation happened.
        """
        return self._take_site(sys._getframe(1))

    def _take_site(self, frame: FrameType | None) -> _span.Site | None:
        """The site of the user's innermost frame, from ``frame`` outwards."""
        hidden, own, start = _span._hidden, self._own_code, frame
        while frame is not None:
            code = frame.f_code
            known = hidden.get(code.co_filename)
            if known is None:
                known = _span.is_hidden(code.co_filename)
            if known:
                if code is _BOUNDARY:
                    if start is not None and not start.f_code.co_flags & _RESUMABLE:
                        # No user frame up to the boundary, as in torch's own containers.
                        self._site_inner = start
                    return self._site_base
            elif not own or id(code) not in own:
                break
            frame = frame.f_back
        else:
            return None
        if frame is self._site_frame:
            return (code, frame.f_lasti, self._site_parent)
        parent = self._site_above(frame)
        if not code.co_flags & _RESUMABLE:
            # While a function runs, its callers do not change: the next operation in this frame has the same parent.
            self._site_frame, self._site_parent = frame, parent
        return (code, frame.f_lasti, parent)

    def _site_above(self, frame: FrameType) -> _span.Site | None:
        if not self._tracing or frame.f_back is None:
            return None
        return _span.current_site(frame.f_back, self._site_base, self._own_code)

    def _explain(self, message: str, way_out: str = "") -> str:
        """``message`` (which starts like torch.fx's), the place of the user's expression, and what to write instead."""
        lines = [message]
        span = _span.resolve(self._take_site(sys._getframe(2)))
        if span is not None:
            text = _span.source_text(span)
            shown = f": {' '.join(text.split())}" if text else ""
            lines.append(f"  in {span.place}{shown}")
        if way_out:
            lines.append(f"  {way_out}")
        return "\n".join(lines)

    def _stack_as_text(self, frame: FrameType | None) -> str:
        """The stack of the user's program, outermost call first, as Python prints it."""
        frames: list[tuple[CodeType, int]] = []
        while frame is not None:
            code = frame.f_code
            if code is _BOUNDARY and self._record_forward_stack_traces_only and self._site_base is None:
                break
            if not _span.is_hidden(code.co_filename) and id(code) not in self._own_code:
                frames.append((code, frame.f_lineno))
            frame = frame.f_back
        summary = [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in reversed(frames)]
        return "".join(traceback.StackSummary.from_list(summary).format()).strip()

    @contextlib.contextmanager
    def _taking_sites(self, own_code: frozenset[int]) -> Iterator[None]:
        """While it is entered, every node gets a site. ``own_code`` holds ids of code objects to leave out."""
        before = {name: getattr(self, name) for name in ("_tracing", "_own_code", *_AT_FIRST)}
        self.__dict__.update(_AT_FIRST, _tracing=True, _own_code=own_code)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def _call_inside(
        self,
        site: _span.Site | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the forward of a module that was called at ``site``; sites taken inside continue there.

        Raises:
            EndlessTrace: it has a hook of `register_backward_hook`, for which torch takes items of the result until one
                is a tensor. Items of proxies are proxies, so torch.fx never ends.
        """
        module = args[0]
        if module._backward_hooks and not module._is_full_backward_hook:
            raise EndlessTrace(
                f"tracing into {type(module).__name__} never ends: `register_backward_hook` looks for a tensor in the "
                "traced result. Use register_full_backward_hook, or make it a leaf module"
            )
        outside = self._site_base, self._site_frame, self._site_parent, self._site_inner
        self._site_base, self._site_frame, self._site_parent, self._site_inner = site, None, None, None
        try:
            return _span.boundary(function, args, kwargs)
        finally:
            self._site_base, self._site_frame, self._site_parent, self._site_inner = outside


@functools.lru_cache(maxsize=128)
def code_of_subclass(cls: type) -> frozenset[int]:
    """Ids of the code objects of a user's Tracer class: no span may point there."""
    found: set[int] = set()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in ("fxlib", "builtins"):
            continue
        found.update(id(value.__code__) for value in vars(base).values() if isinstance(value, FunctionType))
    return frozenset(found)
