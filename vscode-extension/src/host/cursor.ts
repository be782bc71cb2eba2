/** Tells the server where the cursor is: the class there is traced first, has its findings shown as problems, and is the one that commands take. */
import * as vscode from 'vscode';
import { cursor } from '../protocol/lsp';
import { SCHEME, activeDocument, sourceOf } from './code/addresses';
import type { Lens } from './lens';

/** While the cursor moves on, nothing is sent. */
const REST_MS = 300;

/** Sends the place of an editor's cursor, unless it shows no source. Where nobody types in a notebook, it is in the class of the selected cell. */
export function tellCursor(lens: Pick<Lens, 'client'>, editor = vscode.window.activeTextEditor): void {
  const client = lens.client?.isRunning() ? lens.client : undefined;
  const document = editor?.document ?? activeDocument();
  if (!client || !document || document.uri.scheme === SCHEME || !sourceOf(document)) return;
  const line = editor?.selection.active.line ?? Math.max(0, document.getText().split('\n').findIndex(each => /^class\b/.test(each)));
  void client.sendNotification(cursor, { uri: client.code2ProtocolConverter.asUri(document.uri), line });
}

export function registerCursor(lens: Lens): vscode.Disposable {
  let rest: NodeJS.Timeout | undefined;
  const moved = (editor?: vscode.TextEditor) => {
    clearTimeout(rest);
    rest = setTimeout(() => tellCursor(lens, editor), REST_MS);
  };
  const subscriptions = [
    vscode.window.onDidChangeActiveTextEditor(editor => tellCursor(lens, editor)),
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => moved(textEditor)),
    vscode.window.onDidChangeNotebookEditorSelection(() => moved()),
  ];
  return new vscode.Disposable(() => {
    clearTimeout(rest);
    for (const each of subscriptions) each.dispose();
  });
}
