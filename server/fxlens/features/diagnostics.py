"""Findings as diagnostics, pushed with the version of the text they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls import uris

from fxlens import rules
from fxlens.sources import positions
from fxlens.sources.paths import key
from fxlens.views import finding_place

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


def register(server: FxLensServer) -> None:
    server.on_publish.append(publish)


def publish(ls: FxLensServer, document: Document, findings: list[dict[str, Any]]) -> None:
    diagnostics = [diagnostic(ls, document, finding) for finding in findings]
    diagnostics += untaken(ls, document)
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=diagnostics)
    )


def diagnostic(ls: FxLensServer, document: Document, finding: dict[str, Any]) -> types.Diagnostic:
    span = here(document, finding)
    related = [*finding["related"]]
    if finding["span"] is not None and span is not finding["span"]:
        related.insert(0, {"message": "It happens here", "span": finding["span"]})
    href = rules.page(finding["code"])
    return types.Diagnostic(
        range=to_range(positions.lsp_range(span, document.lines, ls.encoding)),
        severity=SEVERITY[finding["severity"]],
        code=finding["code"],
        code_description=types.CodeDescription(href=href) if href else None,
        source="fxlens",
        message=finding["message"],
        tags=[types.DiagnosticTag.Unnecessary] if "unnecessary" in finding["tags"] else None,
        related_information=[_related(ls, document, each, span) for each in related] if _shows_related(ls) else None,
        data={"target": finding["target"], "node": finding.get("node"), "stale": finding.get("stale", False)},
    )


def here(document: Document, finding: dict[str, Any]) -> dict[str, Any] | None:
    """The finding's place in this document."""
    return finding_place.in_file(document.path, finding, document.shown_record or document.record)


def untaken(ls: FxLensServer, document: Document) -> list[types.Diagnostic]:
    """Lines that no trace of this text reached, to be shown faded."""
    record = document.shown_record
    if record is None:
        return []
    faded = []
    for target in record["targets"]:
        for each in target["untaken"]:
            if key(each["span"]["file"]) == key(document.path):
                faded.append(
                    types.Diagnostic(
                        range=to_range(positions.lsp_range(each["span"], document.lines, ls.encoding)),
                        severity=types.DiagnosticSeverity.Hint,
                        source="fxlens",
                        message=f"Not in the graph of {target['name']}: {each['reason']}",
                        tags=[types.DiagnosticTag.Unnecessary],
                    )
                )
    return faded


def to_range(value: dict[str, Any]) -> types.Range:
    return types.Range(start=types.Position(**value["start"]), end=types.Position(**value["end"]))


def _related(
    ls: FxLensServer, document: Document, related: dict[str, Any], fallback: dict[str, Any] | None
) -> types.DiagnosticRelatedInformation:
    span = related["span"] or fallback
    if span is None or key(span["file"]) == key(document.path):
        uri, lines = document.uri, document.lines
    else:
        uri, lines = uris.from_fs_path(span["file"]) or document.uri, _lines(ls, span["file"])
    place = to_range(positions.lsp_range(span, lines, ls.encoding))
    return types.DiagnosticRelatedInformation(location=types.Location(uri=uri, range=place), message=related["message"])


def _lines(ls: FxLensServer, path: str) -> list[str]:
    other = ls.session.document_at(path)
    if other is not None:
        return other.lines
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return positions.lines_of(file.read())
    except OSError:
        return []


def _shows_related(ls: FxLensServer) -> bool:
    document = ls.client_capabilities.text_document
    published = document.publish_diagnostics if document else None
    return bool(published and published.related_information)
