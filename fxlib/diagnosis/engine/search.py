"""Which runs are needed: to get past failures, then with other answers, until nothing new can be found.

`questions` answers what torch.fx does not, so that a run continues. An expression that raises is cut out of the
function's code and the run is repeated; `cuts` provides a value for it.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import CodeType, TracebackType
from typing import Any

from fxlib.capture.tracer_base import TraceError
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.causes import cause_of
from fxlib.diagnosis.engine.choices import Choices
from fxlib.diagnosis.engine.cuts import Cuts, Filling, prepare
from fxlib.diagnosis.engine.errors import (
    checks_proxy,
    failure_of,
    found_in_tests,
    misled,
    place_of_error,
    proxies_read,
    reads_proxy,
    reraised,
)
from fxlib.diagnosis.engine.failures import about_tracing, classify
from fxlib.diagnosis.engine.findings import Findings, first_line
from fxlib.diagnosis.engine.inputs import without_self
from fxlib.diagnosis.engine.listener import AtProbe, Listener
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION, is_installed, package_of
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.questions import Questions
from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.engine.reach import unregistered
from fxlib.diagnosis.engine.run import Course, Run
from fxlib.diagnosis.engine.subject import Subject
from fxlib.diagnosis.rules import RULES
from fxlib.ir import span as spans

__all__ = ["Limits", "Search", "unhindered"]

_REFUSES_TYPE = re.compile(r"type Proxy|\bProxy'>")
"""In messages of what refuses a traced value for its type."""
_SCHEDULE = "/proc/thread-self/schedstat"
"""On Linux: nanoseconds that this thread has run, and that it has waited for a processor."""


def unhindered() -> float:
    """A clock in seconds that stops while this thread waits for a processor, if the system provides that time."""
    now = time.monotonic()
    try:
        with open(_SCHEDULE, encoding="ascii") as file:
            return now - int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return now


@dataclass(frozen=True)
class Limits:
    """How long to search. ``exploring`` runs look for paths other than the first; none if one complete run is
    ``enough``. ``seconds`` is processor time, ``patience`` is clock time without waiting for a processor: a busy
    machine does not cut a diagnosis short, and a forward that sleeps does not use up the time limit of its process."""

    runs: int = 48
    exploring: int = 8
    seconds: float = 3.0
    patience: float = 6.0
    enough: bool = False


class Search:
    """The runs on one course. After `explore`, ``best`` is the run that got furthest and ``last`` the last one, whose
    changes are still on the module; ``reached`` and ``deciding`` are those of all runs."""

    def __init__(
        self,
        subject: Subject,
        detectors: Mapping[str, AtProbe],
        findings: Findings | None = None,
        cuts: Cuts | None = None,
        choices: Choices | None = None,
        course: Course | None = None,
    ) -> None:
        self.subject = subject
        self.detectors = detectors
        self.findings = Findings() if findings is None else findings
        self.cuts = Cuts(subject.instrumentation) if cuts is None else cuts
        self.choices = Choices() if choices is None else choices
        self.course = Course(subject.concrete_args) if course is None else course
        self.best = self.last = Run(subject, self.course, self.findings)
        self.reached: set[tuple[CodeType, int, str]] = set()
        self.deciding: dict[int, str] = {}

    def explore(self, limits: Limits) -> None:
        """Run until nothing new can be found, within the limits."""
        best: tuple[bool, int] = (False, -1)
        used_up, late = time.thread_time() + limits.seconds, unhindered() + limits.patience
        exploring = 0
        for number in range(limits.runs):
            run = self.last = self._run(Run(self.subject, self.course, self.findings), self.choices)
            self.reached |= run.reached
            self.deciding = {**run.deciding, **self.deciding}
            if run.error is not None and number == 0 and prepare():
                used_up, late = time.thread_time() + limits.seconds, unhindered() + limits.patience
            # The first of the complete runs.
            rank = (run.complete, 0 if run.complete and best[0] else len(run.nodes))
            if run.graph is not None and rank > best:
                best, self.best = rank, run
            if run.complete and limits.enough:
                break
            if run.error is None or not self._record_failure(run, run.error):
                answers = self.choices.turn()
                if answers is None or exploring >= limits.exploring:
                    _clear_frames(run.error)
                    break
                exploring += 1
                self.course = replace(self.course, answers=answers)
            _clear_frames(run.error)
            if time.thread_time() > used_up or unhindered() > late:
                break
            self.subject.snapshot.restore()

    def once_more(self, watched: Callable[[Run], Any] | None = None, **changes: Any) -> Run | None:
        """One further run like the best one, with a changed course; None if it does not complete. Its findings are
        discarded. It runs in the context that ``watched`` returns for it."""
        run = Run(self.subject, replace(self.best.course, **changes), self.findings.copy())
        with contextlib.nullcontext() if watched is None else watched(run):
            self._run(run, self.choices.copy())
        _clear_frames(run.error)
        return run if run.complete else None

    def _run(self, run: Run, choices: Choices) -> Run:
        instrumentation = self.subject.instrumentation
        run.tracer.answers = Questions(run, choices)
        listener, filling = Listener(run, self.detectors), Filling(run, self.cuts, choices)
        try:
            with instrumentation.active(listener.hear, filling.fill), self.subject.snapshot.noting():
                graph = run.tracer.trace(self.subject.root, run.course.concrete_args)
            line = instrumentation.first_line(graph)
            if line is not None:
                graph._co_fields["co_firstlineno"] = line
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not run.guessed and run.course.corrections is None:
                raise  # a normal run would end there, too
            run.error = error
        run.needing = self.subject.snapshot.needing()
        return run

    def _record_failure(self, run: Run, error: BaseException) -> bool:
        """Record the failure of a run. True if the next run will get past it."""
        while error.__context__ is not None and about_tracing(error.__context__):
            if about_tracing(error) and not reraised(run, error):
                break
            error = error.__context__
        place = place_of_error(run, error)
        certain = not run.guessed and run.course.corrections is None
        if not certain and (_checks_itself(error) or not (about_tracing(error) or reads_proxy(run, place, error))):
            return False
        if without_self(self.subject.root):
            run.add("FX187", self.subject.definition or self.root_class(), error=error)
            return False
        if place is None:
            if certain:
                self._no_root(run, error)
            return False
        if not certain and self._due_to_guess(place, error):
            return self.cuts.cut(place, "FX199")
        failure = failure_of(error, place)
        code, message, detail = classify(failure)
        if code == "FX170" and run.tracer.refused is not None:
            message = unregistered(self.subject.root, run.tracer.refused)
        if code == "FX140":
            read = proxies_read(place, error)
            if read and all(isinstance(run.values.of(each.node), (int, float)) for each in read):
                detail = "Its argument is a number, so no torch function can replace it: call it in a wrapped function"
        if self._due_to_replacement(run, place, error):
            return self.cuts.cut(place, code, plain=True)
        plain = code == "FX199" and not (about_tracing(error) or reads_proxy(run, place, error))
        if plain and place.caller is not None:
            place = place.caller  # in a package: not its code but its arguments are wrong
        raises = isinstance(place.node, ast.Raise)
        tests = misled(run, place)
        refused = _REFUSES_TYPE.search(text_of(error)) is not None
        led = (raises and not tests and not refused) or "Proxy" not in text_of(error)
        if code == "FX199" and not certain and led:
            # Caused by a value that replaced another one.
            return self.cuts.cut(place, code)
        data = {"raises": type(error).__name__, "name": getattr(error, "name", None)} if code == "FX199" else None
        if code == "FX199" and (isinstance(place.node, (ast.Raise, ast.Assert)) or isinstance(error, AssertionError)):
            code = "FX195" if tests or ("Proxy(" in text_of(error) and checks_proxy(run, place, error)) else "FX199"
        severity = None
        if code == "FX199" and (test := self._deciding_none_test(tests)) is not None:
            message = (
                f"Tracing fails in the branch that `{test.text}` selects: {type(error).__name__}: {first_line(error)}"
            )
            severity, detail = "warning", "Fix the argument with concrete_args"
        asked = isinstance(place.node, ast.Assert) and any(rule == "FX104" for rule, _ in found_in_tests(run, place))
        if not (code == "FX195" and asked):  # its question about a traced value has its own finding
            run.add(code, place, message, error=error, severity=severity, detail=detail, data=data)
        if isinstance(error, RecursionError):
            return False
        if code == "FX195" and any([self.cuts.cut(test, rule) for rule, test in tests]):
            return True
        if place.caller is not None and self.cuts.cut(place.caller, PACKAGE_FUNCTION):
            return True
        return self.cuts.cut(place, code, plain=plain)

    def _no_root(self, run: Run, error: BaseException) -> None:
        """Report a failure before any user code runs."""
        message = detail = ""
        place = self.root_class()
        if "co_varnames is too small" in text_of(error):
            message = (
                "torch.fx rewrites the signature of a `forward` with keyword-only arguments, `*args` or `**kwargs`, "
                "but here it finds the function of a decorator instead of `forward`"
            )
            detail = "Decorate a method that forward calls instead, or do the decorator's work in forward"
        if "dynamo-optimized" in text_of(error):
            message = "`forward` is compiled by torch.compile, and torch.fx refuses to trace what is compiled"
            detail = "Compile the model where it is used, instead of decorating `forward`"
            place = self._compiling_decorator() or place
        run.add("FX190", place, message, error=error, detail=detail)

    def _due_to_guess(self, place: Place, error: BaseException) -> bool:
        """Whether torch's code asked a question about a traced value within this expression and failed after a guessed
        answer: `layer.to(x.device)` compares devices. The question is then the finding."""
        file = _raised_in(error)
        asked = any(each.span == place.span and RULES[each.code].question for each in self.findings)
        return asked and is_installed(file) and package_of(file) == "torch"

    def _due_to_replacement(self, run: Run, place: Place, error: BaseException) -> bool:
        """Whether all traced values in the failing expression replace values of other failures unrelated to tracing, so
        that a normal run has no traced value there."""
        read = proxies_read(place, error)
        stands_in = bool(read) or (about_tracing(error) and self.cuts.has_plain(place.span))
        return stands_in and all(cause_of(each.node, run.values).kind == "plain" for each in read)

    def _deciding_none_test(self, tests: list[tuple[str, Place]]) -> Place | None:
        """The test for None that keeps a normal run, which has None there, from getting here."""
        absent = {each.span for each in self.findings if each.code == "FX201" and each.severity == "warning"}
        return next((test for rule, test in tests if rule == "FX201" and test.span in absent), None)

    def root_class(self) -> Place | None:
        """The class statement of the root, for failures before any user code runs."""
        kind = type(self.subject.root)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file is None or spans.is_hidden(file):
            return None
        found = trees.class_head(file, kind.__name__)
        return None if found is None else Place(found, None, None, (found,))

    def _compiling_decorator(self) -> Place | None:
        """The decorator of the root's forward that compiles it."""
        code: Any = getattr(inspect.unwrap(type(self.subject.root).forward), "__code__", None)
        tree = trees.function_tree(code) if code is not None and not spans.is_hidden(code.co_filename) else None
        for decorator in tree.decorator_list if tree is not None else ():
            if "compile" in ast.unparse(decorator):
                span = trees.span_of(decorator, code.co_filename)
                return Place(span, decorator, None, (span,))
        return None


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames in an error's traceback. They hold the model and the run, which holds the error; Python 3.11
    never collects such a cycle."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def _checks_itself(error: BaseException) -> bool:
    """Whether torch's own code raised an error deliberately: after a guessed answer, such as for `input.dim() != 4`, it
    means nothing."""
    if isinstance(error, TraceError) or _REFUSES_TYPE.search(text_of(error)):
        return False  # a type error about a traced value does not depend on the answer
    traceback = _innermost(error)
    if traceback is None:
        return False
    file = traceback.tb_frame.f_code.co_filename
    return is_installed(file) and linecache.getline(file, traceback.tb_lineno).lstrip().startswith("raise ")


def _raised_in(error: BaseException) -> str:
    """The file whose code raised it."""
    traceback = _innermost(error)
    return "" if traceback is None else traceback.tb_frame.f_code.co_filename


def _innermost(error: BaseException) -> TracebackType | None:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback
