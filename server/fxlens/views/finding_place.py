"""The place of a finding in a file: its own, or the line of the file that led there."""

from __future__ import annotations

from fxlens.record import Finding, Record, Span, name_span
from fxlens.sources.paths import key


def in_file(path: str, finding: Finding, record: Record | None) -> Span | None:
    """The span in this file. A problem inside a library is shown at the file's call, or else at the class's name."""
    own = key(path)
    for span in [finding["span"], *reversed(finding["call_path"])]:
        if span is not None and key(span["file"]) == own:
            return span
    for target in record["targets"] if record else ():
        if target["name"] == finding["target"]:
            return name_span(target, path)
    return None
