"""What a finding says: what happened, why, what to do, in at most two short sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fxlib.diagnosis.report import Finding

RIDDLES = re.compile(
    r"mended|\btold\b|its truth|behind|asked of|comes by|goes on|goes the way|without a word|way out|is otherwise"
    r"|something else|of its own accord|takes? for a|looks? into|by itself",
    re.IGNORECASE,
)


def assert_plain(findings: Iterable[Finding]) -> None:
    for finding in findings:
        texts = [finding.message, *(note.message for note in finding.related if note.kind != "torch")]
        assert not any(RIDDLES.search(text) for text in texts)
        # Text in backticks, and texts of exceptions, are not ours.
        own = re.sub(r"`[^`]*`|\w+Error: .*", "", finding.message)
        assert len(re.findall(r"[.!?](?= [A-Z])", own)) <= 1 and len(own) <= 170, finding.message
