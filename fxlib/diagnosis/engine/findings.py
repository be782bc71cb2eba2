"""What the runs of a diagnosis found: each problem is written down once for a rule and an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fxlib.diagnosis.engine.corrections import Corrections
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION, is_installed, package_of, short_path
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["Findings", "first_line"]

_NAMES = frozenset({"forward", "torch", "self"})


class Findings:
    """The findings of several runs, and the places that they stand at."""

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
        """For a run whose findings are not kept."""
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
        detail: str,
        *,
        error: BaseException | None = None,
        severity: str | None = None,
        related: tuple[Related, ...] = (),
        node: str | None = None,
        data: dict[str, Any] | None = None,
        corrections: Corrections | None = None,
    ) -> Finding:
        """Write down a problem, once per rule and expression.

        One in a function of an installed package is put where the user calls it: that is what they can change.

        Args:
            detail: what is special about this one, for the message.
            error: what torch.fx raises, for a loud rule; the rule's own text where it is left out.
            related: notes of the caller's.
            corrections: set where the run corrects misleading answers, one of which hides the problem.
        """
        rule = broken = RULES[code]
        inside = None
        if place is not None and place.caller is not None:
            inside, place = place, place.caller
            if rule.loud:
                title = f"{rule.title[0].lower()}{rule.title[1:]}, `{inside.text}`"
                detail = f"inside {package_of(inside.span.file)}: {title if error is None else detail}"
                rule, code = RULES[PACKAGE_FUNCTION], PACKAGE_FUNCTION
        span = None if place is None else place.span
        known = self._found.get((code, span))
        if known is not None:
            return known
        notes = list(related)
        if rule.loud:
            said = f"{type(error).__name__}: {first_line(error)}" if error else f"TraceError: {broken.torch_text}"
            notes.insert(0, Related(f"torch.fx says: {said}", span if inside is None else inside.span, "torch"))
        path = () if place is None else place.call_path
        notes.extend(Related("on the way from forward", step, "call") for step in path[:-1])
        what = f": `{place.text}`" if place is not None and place.text else ""
        if inside is not None and place is not None and not rule.loud:
            what = f": `{inside.text}` inside {package_of(inside.span.file)}, called by `{place.text}`"
            notes.append(Related(f"in {short_path(inside.span.file)}", inside.span))
        elif span is not None and is_installed(span.file) and any(not is_installed(step.file) for step in path):
            what += f" inside {package_of(span.file)}"
        verdict = "torch.fx fails here" if rule.loud else ""
        severity = severity or rule.severity
        hidden_by = None
        if corrections is not None:
            hiding = corrections.hiding(place)
            hidden_by = hiding.finding.span
            when = hiding.sentence(place)
            verdict, detail = (f"{when}, {verdict}", detail) if verdict else ("", f"{when}: {detail}")
            notes.append(hiding.note())
            # The trace as it is does not fail here; nor need it ever, where nothing has to be fixed.
            severity = hiding.finding.severity if severity == "error" else severity
        message = f"{rule.title}{what}. {_sentence('; '.join(part for part in (verdict, detail) if part))}"
        inner = None if inside is None else inside.span
        finding = Finding(code, severity, message, span, tuple(notes), path, node, data or {}, hidden_by, inner)
        self._found[code, span] = finding
        if place is not None:
            self._places[code, span] = place
        return finding


def _sentence(text: str) -> str:
    """With a capital, where it begins with a word and not with a name."""
    first = re.match(r"[a-z-]+(?=[ ,'’])", text)
    return text if first is None or first[0] in _NAMES else text[0].upper() + text[1:]


def first_line(error: BaseException | None) -> str:
    """The first line of an error's text, as torch.fx has it: its own proxies are of another module than ours."""
    text = str(error).replace("fxlib.proxy.", "torch.fx.proxy.")
    return text.split("\n", 1)[0] if text else ""
