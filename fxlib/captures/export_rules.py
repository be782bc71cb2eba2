"""From an exception of torch.export to a finding: its rule and its sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fxlib.captures.interface import asks_for_gradient, reads_data
from fxlib.captures.places import Frame
from fxlib.captures.verdict import holds_for, sentence
from fxlib.diagnosis.engine.packages import is_installed, short_path
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["Failure", "finding_of", "rule_of"]


@dataclass(frozen=True)
class Failure:
    """An exception of torch.export: the user's frames that led there, outermost first; the frame in an installed
    package, if it was raised in one; and whether the expression calls a scripted module or function."""

    error: BaseException
    path: tuple[Span, ...]
    inside: Frame | None = None
    scripted: bool = False

    @property
    def span(self) -> Span | None:
        return self.path[-1] if self.path else None

    @property
    def text(self) -> str:
        first = next((line for line in str(self.error).strip().splitlines() if line.strip()), "")
        return f"{type(self.error).__name__}: {first}" if first else type(self.error).__name__


# From the name of the exception and its text to the rule; the first match counts.
_TABLE = (
    ("GuardOnDataDependentSymNode", r"specialized integer|expression zuf", "FX502"),
    ("GuardOnDataDependentSymNode", r"expression Eq\(u\d+, 1\) ", "FX501"),
    ("GuardOnDataDependentSymNode", r"", "FX503"),
    ("TypeError", r"SymInt|SymFloat|SymBool", "FX502"),
    ("", r"\.numpy\(\)|data is not allocated|data pointer|__format__|FakeTensor", "FX504"),
    ("", r"in output, which is not a known type|Unsupported input type", "FX505"),
    ("", r"constant's list|assigned during export|register_buffer", "FX506"),
)


def rule_of(failure: Failure) -> str:
    """The code of the rule for a failure."""
    if failure.inside is not None and is_installed(failure.inside.file):
        return "FX590"
    if failure.scripted:
        return "FX507"
    text = str(failure.error)
    if "lifted_tensor" in text and asks_for_gradient(failure.span):
        return "FX509"
    if "lifted_tensor" in text and (reads_data(failure.span) or failure.span is None):
        return "FX508" if failure.path else "FX599"
    for name, pattern, code in _TABLE:
        if name in ("", type(failure.error).__name__) and re.search(pattern, text):
            return code
    return "FX599"


def finding_of(failure: Failure) -> Finding:
    """The finding for one failure."""
    code = rule_of(failure)
    inside = f"{short_path(failure.inside.file)}:{failure.inside.line}" if failure.inside is not None else ""
    message = sentence(code, failure.span, package=inside, error=failure.text[:200])
    related = [Related(failure.text, None, "torch"), *(Related(check) for check in suggested_checks(failure.error))]
    return Finding(
        code,
        RULES[code].severity,
        message,
        failure.span,
        tuple(related),
        failure.path,
        data={"captures": holds_for("export", code), "error": type(failure.error).__name__},
    )


def suggested_checks(error: BaseException) -> list[str]:
    """The lines that torch suggests to add: ``torch._check(...)``."""
    return list(dict.fromkeys(re.findall(r"torch\._check[\w]*\(.*\)", str(error))))
