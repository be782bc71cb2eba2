"""Findings as diagnostics, pushed with the version of their text; without a version while more will follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens import record, rules
from fxlens.record import Finding, Related, Span
from fxlens.sources import positions
from fxlens.sources.paths import key
from fxlens.views import finding_place

from .places import location, to_range

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


def publish(ls: FxLensServer, document: Document, findings: list[Finding], complete: bool) -> None:
    diagnostics = [diagnostic(ls, document, finding) for finding in findings]
    diagnostics += untaken(ls, document)
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(
            uri=document.uri, version=document.version if complete else None, diagnostics=diagnostics
        )
    )


def diagnostic(ls: FxLensServer, document: Document, finding: Finding) -> types.Diagnostic:
    span = here(document, finding)
    related = [*finding["related"]]
    if finding["span"] is not None and span is not finding["span"]:
        related.insert(0, record.related("It happens here", finding["span"]))
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
        data={"target": finding["target"], "node": finding["node"], "stale": finding["stale"]},
    )


def here(document: Document, finding: Finding) -> Span | None:
    """The finding's place in this document."""
    return finding_place.in_file(document.path, finding, document.shown_record or document.record)


def untaken(ls: FxLensServer, document: Document) -> list[types.Diagnostic]:
    """Lines that no trace of this text reached, to be shown faded."""
    faded: list[types.Diagnostic] = []
    moved = positions.moved_lines(positions.lines_of(document.shown_text), document.lines)
    targets = document.shown_record["targets"] if document.shown_record else ()
    taken = [span for target in targets for span in target["taken"]]
    for target in targets:
        for each in target["untaken"]:
            if each["span"] in taken:
                continue  # another model that contains this one reaches them
            span = positions.moved_span(each["span"], moved)
            if span is not None and key(span["file"]) == key(document.path):
                faded.append(
                    types.Diagnostic(
                        range=to_range(positions.lsp_range(span, document.lines, ls.encoding)),
                        severity=types.DiagnosticSeverity.Hint,
                        source="fxlens",
                        message=f"Not in the graph of {target['name']}: {each['reason']}",
                        tags=[types.DiagnosticTag.Unnecessary],
                    )
                )
    return faded


def _related(
    ls: FxLensServer, document: Document, related: Related, fallback: Span | None
) -> types.DiagnosticRelatedInformation:
    span = related["span"] or fallback
    if span is None:
        place = to_range(positions.lsp_range(None, document.lines, ls.encoding))
        at = types.Location(uri=document.uri, range=place)
    else:
        at = location(ls, document, span)
    return types.DiagnosticRelatedInformation(location=at, message=related["message"])


def _shows_related(ls: FxLensServer) -> bool:
    document = ls.client_capabilities.text_document
    published = document.publish_diagnostics if document else None
    return bool(published and published.related_information)
