"""Actions for the captures of a whole class: make it exportable, remove its graph breaks, write its dynamic shapes.

Commands ``fxlens.fixCapture`` ``[uri, target, capture]`` and ``fxlens.writeDynamicShapes`` ``[uri, target]``: the
server computes an edit and asks the editor to apply it.  An editor that can show a diff of the fixes first does so.
Code actions do the same, for editors without such commands.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.jobs.dynamic_shapes import Specification
from fxlens.record import Target
from fxlens.sources import parsing, positions
from fxlens.sources.shapes_constant import shapes_constant
from fxlens.views.verdicts import PURPOSES

from . import edits

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
        changes = edits.of_fixed(ls, fixed)
        if changes is None:
            _say(ls, f"Nothing was changed: a file was edited while the fixes for {target} were proven. Ask again.")
            return
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
        except parsing.ERRORS:  # edited meanwhile
            return
        edit = edits.workspace_edit(ls, {uri: [edits.line_edit(written)]})
        _apply(ls, edit, f"dynamic_shapes of {target}")


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
    """The captures that fail or break on a model, and for which there are fixes."""
    able = [each for each in target["captures"] if each["capture"] in PURPOSES]
    return [each["capture"] for each in able if each["outcome"] in ("fails", "parts")]


def _title(name: str, capture: str) -> str:
    return f"Make {name} exportable" if capture == "export" else f"Remove the graph breaks of {name}"


def with_shapes(text: str, name: str, found: Specification) -> positions.LineEdit:
    """The specification of a class as a constant after it, or replacing the existing one."""
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
    after = len(lines) if after is None else after
    head = ["", ""] if knows_torch else ["", "", "from torch.export import Dim", ""]
    if after == len(lines) and not text.endswith("\n"):
        head.insert(0, "")
    return positions.LineEdit(after, after, end.join([*head, *written]))


def _listed(sizes: list[int]) -> str:
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def _counted(fixes: int) -> str:
    return f"{fixes} {'fix' if fixes == 1 else 'fixes'}"


def _apply(ls: FxLensServer, edit: types.WorkspaceEdit, label: str) -> None:
    ls.workspace_apply_edit(types.ApplyWorkspaceEditParams(edit=edit, label=label), lambda _: None)


def _reviewed(ls: FxLensServer, changes: dict[str, list[types.TextEdit]], label: str) -> types.WorkspaceEdit:
    """An edit that is shown as a diff before it is applied, if the editor supports it."""
    workspace = ls.client_capabilities.workspace
    able = workspace.workspace_edit if workspace else None
    edit = edits.workspace_edit(ls, changes)
    if edit.document_changes is None or not (able and able.change_annotation_support):
        return edit
    for step in edit.document_changes:
        if isinstance(step, types.TextDocumentEdit):
            step.edits = [
                types.AnnotatedTextEdit(annotation_id=_REVIEW, range=each.range, new_text=each.new_text)
                for each in step.edits
                if isinstance(each, types.TextEdit)
            ]
    edit.change_annotations = {_REVIEW: types.ChangeAnnotation(label=label, needs_confirmation=True)}
    return edit


def _say(ls: FxLensServer, text: str) -> None:
    ls.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=text))
