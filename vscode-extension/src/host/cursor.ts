/** Tells the server where the cursor is: the class there is traced first, has its findings shown as problems, and is the one that commands take. */
import * as vscode from 'vscode';
import { cursor } from '../protocol/lsp';
import { sourceOf } from './code/addresses';
import type { Lens } from './lens';

/** While the cursor moves on, nothing is sent. */
const REST_MS = 300;

/** Sends the place of an editor's cursor, unless the editor shows no source. */
export function tellCursor(lens: Pick<Lens, 'client'>, editor: vscode.TextEditor | undefined): void {
  const client = lens.client?.isRunning() ? lens.client : undefined;
  const source = editor?.document.uri.scheme === 'fxlens' ? undefined : sourceOf(editor?.document);
  if (client && editor && source) {
    void client.sendNotification(cursor, { uri: client.code2ProtocolConverter.asUri(source), line: editor.selection.active.line });
  }
}

export function registerCursor(lens: Lens): vscode.Disposable {
  let rest: NodeJS.Timeout | undefined;
  const opened = vscode.window.onDidChangeActiveTextEditor(editor => tellCursor(lens, editor));
  const moved = vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
    clearTimeout(rest);
    rest = setTimeout(() => tellCursor(lens, textEditor), REST_MS);
  });
  return new vscode.Disposable(() => {
    clearTimeout(rest);
    opened.dispose();
    moved.dispose();
  });
}
