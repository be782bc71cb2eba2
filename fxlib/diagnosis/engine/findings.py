"""The findings of a diagnosis's runs: one for each rule and expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fxlib.capture.sites import EndlessTrace
from fxlib.diagnosis.engine.corrections import Corrections
from fxlib.diagnosis.engine.forms import called_name, form_of
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION, is_installed, package_of, short_path
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["Findings", "first_line"]


class Findings:
    """The findings of several runs, and their places."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Span | None], Finding] = {}
        self._places: dict[tuple[str, Span | None], Place] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(list(self._found.values()))

    def __contains__(self, key: tuple[str, Span | None]) -> bool:
        return key in self._found

    def place_of(self, finding: Finding) -> Place | None:
        return self._places.get((finding.code, finding.span))

    def copy(self) -> Findings:
        """A copy for a run whose findings are discarded."""
        other = Findings()
        other._found, other._places = dict(self._found), dict(self._places)
        return other

    def remove(self, finding: Finding) -> None:
        del self._found[finding.code, finding.span]

    def replace(self, finding: Finding, **changes: Any) -> None:
        """Put another version in place of a finding."""
        self._found[finding.code, finding.span] = replace(finding, **changes)

    def add(
        self,
        code: str,
        place: Place | None,
        message: str = "",
        *,
        detail: str = "",
        error: BaseException | str | None = None,
        severity: str | None = None,
        related: tuple[Related, ...] = (),
        node: str | None = None,
        data: dict[str, Any] | None = None,
        corrections: Corrections | None = None,
    ) -> Finding:
        """Record a problem, once per rule and expression.

        A problem in a function of an installed package is placed at the user's call, which the user can change.

        Args:
            message: the first sentence; by default that of the rule.
            detail: a second one, specific to this place; by default the rule's advice.
            error: what torch raises; by default the rule's own text.
            related: notes of the caller's.
            corrections: given if the run corrects misleading answers, one of which hides the problem.
        """
        rule = RULES[code]
        inside = None
        if place is not None and place.caller is not None:
            inside, place = place, place.caller
            code = PACKAGE_FUNCTION if rule.loud else code
        span = None if place is None else place.span
        known = self._found.get((code, span))
        if known is not None:
            return known
        where = place if inside is None else inside
        raised = f"TraceError: {rule.torch_text}" if error is None else _described(error)
        caller = None if inside is None or rule.loud else place
        detail = detail or rule.advice
        text = message or rule.says(**_words(where, rule.message, caller), error=raised)
        notes = list(related)
        if rule.loud:
            says = f"torch.fx says: {raised}"
            if isinstance(error, EndlessTrace):
                says = "torch.fx says nothing and does not end"
            notes.insert(0, Related(says, None if where is None else where.span, "torch"))
            if inside is not None:
                rule = RULES[PACKAGE_FUNCTION]
                detail = text
                text = rule.says(**_words(place, rule.message), package=package_of(inside.span.file))
        path = () if place is None else place.call_path
        notes.extend(Related("called from here", step, "call") for step in dict.fromkeys(path[:-1]))
        if inside is not None and not rule.loud:
            notes.append(Related(f"in {short_path(inside.span.file)}", inside.span))
        severity = severity or rule.severity
        hidden_by = None
        if corrections is not None:
            hiding = corrections.hiding(place)
            hidden_by = hiding.finding.span
            text = f"{hiding.condition(place)}{', tracing fails here' if rule.loud else ''}: {text}"
            notes.append(hiding.note())
            # The trace fails here only after a correction, or never if nothing has to be fixed.
            severity = hiding.finding.severity if severity == "error" else severity
        finding = Finding(
            code,
            severity,
            ". ".join(sentence for sentence in (text, detail) if sentence),
            span,
            tuple(notes),
            path,
            node,
            data or {},
            hidden_by,
            None if inside is None else inside.span,
        )
        self._found[code, span] = finding
        if place is not None:
            self._places[code, span] = place
        return finding


def _words(place: Place | None, message: str, caller: Place | None = None) -> dict[str, str]:
    """The message of a rule for an expression; see `Rule.says`. ``caller`` is the user's call of the package that
    contains it."""
    if place is None:
        return {"it": "this expression"}
    text = f"`{place.text}`" if place.text else "this expression"
    if caller is not None:
        text += f" (in {package_of(place.span.file)}, called by `{caller.text}`)"
    elif is_installed(place.span.file) and any(not is_installed(step.file) for step in place.call_path):
        text += f" in {package_of(place.span.file)}"
    form = form_of(place.node)[0] if "{form}" in message else "call"
    return {"it": text, "form": form, "call": called_name(place.node)}


def _described(error: BaseException | str) -> str:
    return error if isinstance(error, str) else f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")


def first_line(error: BaseException) -> str:
    """The first line of an error's text as torch.fx would have it, whose proxies have another module name."""
    return text_of(error).replace("fxlib.proxy.", "torch.fx.proxy.").split("\n", 1)[0]
