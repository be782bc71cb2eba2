"""What can be done about captures for a whole class: make it exportable, remove its graph breaks, write what may vary.

Commands ``fxlens.fixCapture`` ``[uri, target, capture]`` and ``fxlens.writeDynamicShapes`` ``[uri, target]``: the
server computes an edit and asks the editor to apply it.  An editor that can show a diff of the fixes first does so.
A request for code actions says
the same, for editors that send no such notification.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls import uris

from fxlens.jobs.dynamic_shapes import Specification
from fxlens.record import Target
from fxlens.sources import files, parsing, positions
from fxlens.sources.shapes_constant import shapes_constant
from fxlens.views.verdicts import PURPOSES

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

FIX = "fxlens.fixCapture"
SHAPES = "fxlens.writeDynamicShapes"
KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"
_HEAD = "# dynamic_shapes for torch.export"
_REVIEW = "fxlens"


def register(server: FxLensServer) -> None:
    @server.command(FIX)
    async def fix(ls: Any, uri: str, target: str, capture: str) -> None:
        fixed = await ls.session.fix_capture(uri, target, capture)
        if fixed is None or not fixed.texts:
            _say(ls, f"No fix for {target} could be proven. Each problem says what its fixes lack.")
            return
        changes = {}
        for path, text in fixed.texts.items():
            other = ls.session.document_at(path)
            before = other.text if other else (files.read_text(path, "replace") or "")
            changes[other.uri if other else uris.from_fs_path(path) or ""] = _edits(before, text)
        label = f"{_title(target, capture)}: {_counted(len(fixed.applied))}"
        _apply(ls, _reviewed(ls, changes, label), label)

    @server.command(SHAPES)
    async def dynamic_shapes(ls: Any, uri: str, target: str) -> None:
        found = await ls.session.dynamic_shapes(uri, target)
        document = ls.session.documents.get(uri)
        if document is None or found is None:
            return
        if found.problem:
            _say(ls, ". ".join([found.problem, *found.limits]))
            return
        try:
            written = with_shapes(document.text, target, found)
        except parsing.ERRORS:  # typed on meanwhile
            return
        _apply(ls, types.WorkspaceEdit(changes={uri: [_edit(written)]}), f"dynamic_shapes of {target}")


def actions(document: Document, wanted: types.Range) -> list[types.CodeAction]:
    """On the line of a class statement."""
    record = document.record
    if record is None or document.record_text != document.text:
        return []
    found = []
    for target in record["targets"]:
        if wanted.start.line <= target["line"] - 1 <= wanted.end.line and target["construct"] and target["inputs"]:
            arguments = [document.uri, target["name"]]
            for capture in _improvable(target):
                title = _title(target["name"], capture)
                command = types.Command(title=title, command=FIX, arguments=[*arguments, capture])
                found.append(types.CodeAction(title=title, kind=KIND, command=command))
            title = f"Write dynamic_shapes for the export of {target['name']}"
            command = types.Command(title=title, command=SHAPES, arguments=arguments)
            found.append(types.CodeAction(title=title, kind=KIND, command=command))
    return found


def _improvable(target: Target) -> list[str]:
    """The captures that refuse a model, or break it, and that fixes are for."""
    able = [each for each in target["captures"] if each["capture"] in PURPOSES]
    return [each["capture"] for each in able if each["outcome"] in ("fails", "parts")]


def _title(name: str, capture: str) -> str:
    return f"Make {name} exportable" if capture == "export" else f"Remove the graph breaks of {name}"


def with_shapes(text: str, name: str, found: Specification) -> positions.LineEdit:
    """The specification of a class as a constant after it, or in place of the one that is there."""
    constant = shapes_constant(name)
    end = "\r\n" if "\r\n" in text else "\n"
    tree = ast.parse(text)
    knows_torch = any(
        isinstance(node, ast.Import) and any(alias.name == "torch" and not alias.asname for alias in node.names)
        for node in tree.body
    )
    value = found.text.replace("Dim(", "torch.export.Dim(") if knows_torch else found.text
    sizes = "; ".join(f"{root} {_listed(tried)}" for root, tried in (found.sizes or {}).items())
    written = [f"{_HEAD} of {name}: agrees with eager at {sizes}.", f"{constant} = {value}", ""]
    lines = positions.lines_of(text)
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == [constant]:
            first = node.lineno - 1
            first -= first > 0 and lines[first - 1].startswith(_HEAD)
            return positions.LineEdit(first, node.end_lineno or node.lineno, end.join(written))
    after = positions.class_end(text, name)
    head = ["", ""] if knows_torch else ["", "", "from torch.export import Dim", ""]
    if after == len(lines) and not text.endswith("\n"):
        head.insert(0, "")
    return positions.LineEdit(after, after, end.join([*head, *written]))


def _listed(sizes: list[int]) -> str:
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def _edits(before: str, after: str) -> list[types.TextEdit]:
    return [_edit(each) for each in positions.line_edits(before, after)]


def _edit(edit: positions.LineEdit) -> types.TextEdit:
    first, last = (types.Position(line=line, character=0) for line in (edit.line, edit.end_line))
    return types.TextEdit(range=types.Range(start=first, end=last), new_text=edit.text)


def _counted(fixes: int) -> str:
    return f"{fixes} {'fix' if fixes == 1 else 'fixes'}"


def _apply(ls: FxLensServer, edit: types.WorkspaceEdit, label: str) -> None:
    ls.workspace_apply_edit(types.ApplyWorkspaceEditParams(edit=edit, label=label), lambda _: None)


def _reviewed(ls: FxLensServer, changes: dict[str, list[types.TextEdit]], label: str) -> types.WorkspaceEdit:
    """An edit that is shown as a diff before it is applied, where the editor can do that."""
    workspace = ls.client_capabilities.workspace
    able = workspace.workspace_edit if workspace else None
    if not (able and able.document_changes and able.change_annotation_support):
        return types.WorkspaceEdit(changes=changes)
    steps = []
    for uri, edits in changes.items():
        document = ls.session.documents.get(uri)
        version = document.version if document else None
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        annotated = [
            types.AnnotatedTextEdit(annotation_id=_REVIEW, range=each.range, new_text=each.new_text) for each in edits
        ]
        steps.append(types.TextDocumentEdit(text_document=identifier, edits=list(annotated)))
    annotation = types.ChangeAnnotation(label=label, needs_confirmation=True)
    return types.WorkspaceEdit(document_changes=list(steps), change_annotations={_REVIEW: annotation})


def _say(ls: FxLensServer, text: str) -> None:
    ls.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=text))
