/** Classes that the user watches, which are meant to be captured. */
import * as path from 'node:path';
import * as vscode from 'vscode';
import { activeSource } from './code/addresses';
import type { Lens } from './lens';
import { SECTION } from './settings';

/** Starts or stops watching a class: in the workspace's settings, or the user's if there is no workspace. */
export async function watch(lens: Lens, uri: unknown, target: unknown): Promise<void> {
  const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
  if (!source) return;
  const name = typeof target === 'string' ? target : await lens.pickTarget(source, { traced: false });
  if (!name) return;
  const folder = vscode.workspace.getWorkspaceFolder(source);
  const settings = vscode.workspace.getConfiguration(SECTION, source);
  const where = folder ? vscode.ConfigurationTarget.WorkspaceFolder : vscode.ConfigurationTarget.Global;
  await settings.update('watch', toggled(settings.get<string[]>('watch', []), entry(source.fsPath, folder?.uri.fsPath, name)), where);
}

/** The name of a class in the setting: `models/net.py::Net`. */
export function entry(file: string, folder: string | undefined, name: string): string {
  const shown = folder ? path.relative(folder, file).split(path.sep).join('/') : file;
  return `${shown}::${name}`;
}

export function toggled(watched: readonly string[], name: string): string[] {
  return watched.includes(name) ? watched.filter(each => each !== name) : [...watched, name].sort();
}
