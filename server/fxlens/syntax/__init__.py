"""Findings without running anything: which names flow from forward's arguments, and where that stops a trace.

Used before a workspace is trusted and while a file does not parse or import. Standard library only; milliseconds. The
codes are those of the rules; findings say ``"source": "syntax"``, and those that depend on an undecided condition are
``info``.
"""

from __future__ import annotations

from collections.abc import Collection

from fxlens.record import Finding
from fxlens.sources.parsing import syntax_problem

from .problems import Problems
from .recover import parse_tolerantly
from .scope import File
from .walk import Walk

__all__ = ["analyse", "without_running"]


def without_running(text: str, path: str) -> list[Finding]:
    """All that is known of a file that is not executed: that it does not parse, and what `analyse` finds."""
    problem = syntax_problem(text, path)
    return [*([problem] if problem else []), *analyse(text, path)]


def analyse(text: str, path: str, targets: Collection[str] | None = None) -> list[Finding]:
    """The findings of a source, in the form of the record, in the order of the text.

    Every module of the file is taken as the root of a trace, or only the ``targets`` named. A text that does not parse
    is analysed without the offending lines; if nothing remains, there are no findings.
    """
    tree, dropped = parse_tolerantly(text)
    if tree is None:
        return []
    file = File(tree)
    problems = Problems(path, text, dropped)
    for name, owner in file.modules.items():
        function = file.method(owner, "forward")
        if function is None or (targets is not None and name not in targets):
            continue
        try:
            Walk(file, problems, name, owner).forward(function)
        except RecursionError:
            continue
    return problems.all()
