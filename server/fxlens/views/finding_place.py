"""Where in a file a finding is shown: its own place, or the line of the file that led there."""

from __future__ import annotations

from typing import Any

from fxlens.sources.paths import key


def in_file(path: str, finding: dict[str, Any], record: dict[str, Any] | None) -> dict[str, Any] | None:
    """The span in this file.  A problem inside a library is shown at the call that the file makes, else at the
    class's name."""
    own = key(path)
    for span in [finding["span"], *reversed(finding.get("call_path") or [])]:
        if span is not None and key(span["file"]) == own:
            return span
    for target in (record or {}).get("targets", ()):
        if target["name"] == finding["target"]:
            return {**{name: target[name] for name in ("line", "column", "end_line", "end_column")}, "file": path}
    return None
