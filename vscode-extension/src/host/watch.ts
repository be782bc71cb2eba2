/** Which classes the user means to be captured: those that they watch, and the one that their cursor is in. */
import * as path from 'node:path';
import * as vscode from 'vscode';
import { cursor } from '../protocol/lsp';
import { activeSource, sourceOf } from './code/addresses';
import type { Lens } from './lens';
import { SECTION } from './settings';

/** While the cursor moves on, nothing is sent. */
const REST_MS = 300;

/** Watches a class from now on, or no longer: in the settings of the workspace, or the user's where there is none. */
export async function watch(lens: Lens, uri: unknown, target: unknown): Promise<void> {
  const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
  if (!source) return;
  const name = typeof target === 'string' ? target : await lens.pickTarget(source);
  if (!name) return;
  const folder = vscode.workspace.getWorkspaceFolder(source);
  const settings = vscode.workspace.getConfiguration(SECTION, source);
  const where = folder ? vscode.ConfigurationTarget.WorkspaceFolder : vscode.ConfigurationTarget.Global;
  await settings.update('watch', toggled(settings.get<string[]>('watch', []), entry(source.fsPath, folder?.uri.fsPath, name)), where);
}

/** A class as the setting names it: `models/net.py::Net`. */
export function entry(file: string, folder: string | undefined, name: string): string {
  const shown = folder ? path.relative(folder, file).split(path.sep).join('/') : file;
  return `${shown}::${name}`;
}

export function toggled(watched: readonly string[], name: string): string[] {
  return watched.includes(name) ? watched.filter(each => each !== name) : [...watched, name].sort();
}

/** Tells the server where the cursor rests: the class there is shown as a problem, not as a hint. */
export function registerCursor(lens: Lens): vscode.Disposable {
  let rest: NodeJS.Timeout | undefined;
  const moved = vscode.window.onDidChangeTextEditorSelection(event => {
    const source = event.textEditor.document.uri.scheme === 'fxlens' ? undefined : sourceOf(event.textEditor.document);
    const line = event.selections[0]?.active.line;
    if (!source || line === undefined) return;
    clearTimeout(rest);
    rest = setTimeout(() => {
      const client = lens.client?.isRunning() ? lens.client : undefined;
      void client?.sendNotification(cursor, { uri: client.code2ProtocolConverter.asUri(source), line });
    }, REST_MS);
  });
  return new vscode.Disposable(() => {
    clearTimeout(rest);
    moved.dispose();
  });
}
