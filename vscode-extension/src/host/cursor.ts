/** Tells the server where the cursor is: the class there is traced first, has its findings shown as problems, and is the one that commands take. */
import * as vscode from 'vscode';
import { cursor } from '../protocol/lsp';
import { SCHEME, activeDocument, sourceOf } from './code/addresses';
import type { Lens } from './lens';

/** Nothing is sent while the cursor keeps moving. */
const REST_MS = 300;

/** Where a cursor is, or was. */
export interface Place {
  uri: vscode.Uri;
  line: number;
}

/** The place of an editor's cursor, unless it shows no source. In a notebook without an active editor, it is the selected cell. */
export function cursorOf(editor = vscode.window.activeTextEditor): Place | undefined {
  const document = editor?.document ?? activeDocument();
  if (!document || document.uri.scheme === SCHEME || !sourceOf(document)) return undefined;
  const line = editor?.selection.active.line ?? Math.max(0, document.getText().split('\n').findIndex(each => /^class\b/.test(each)));
  return { uri: document.uri, line };
}

/** Sends a place, by default that of the cursor. */
export function tellCursor(lens: Pick<Lens, 'client'>, place = cursorOf()): void {
  const client = lens.client?.isRunning() ? lens.client : undefined;
  if (client && place) void client.sendNotification(cursor, { uri: client.code2ProtocolConverter.asUri(place.uri), line: place.line });
}

export function registerCursor(lens: Lens): vscode.Disposable {
  let rest: NodeJS.Timeout | undefined;
  const moved = (editor?: vscode.TextEditor) => {
    clearTimeout(rest);
    rest = setTimeout(() => tellCursor(lens, cursorOf(editor)), REST_MS);
  };
  const subscriptions = [
    vscode.window.onDidChangeActiveTextEditor(editor => tellCursor(lens, cursorOf(editor))),
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => moved(textEditor)),
    vscode.window.onDidChangeNotebookEditorSelection(() => moved()),
  ];
  return new vscode.Disposable(() => {
    clearTimeout(rest);
    for (const each of subscriptions) each.dispose();
  });
}
