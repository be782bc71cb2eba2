/** The settings that the extension reads; package.json describes them, and the server gets its own over the protocol. */
import * as vscode from 'vscode';

export const SECTION = 'fxlens';

/** Settings that need a restart of the server when they change. */
export const RESTART_KEYS = ['fxlens.serverPython'];

export interface Settings {
  enable: boolean;
  python: string;
  serverPython: string;
}

export function readSettings(scope?: vscode.Uri): Settings {
  const section = vscode.workspace.getConfiguration(SECTION, scope);
  return {
    enable: section.get('enable', true),
    python: expand(section.get('python', ''), scope),
    serverPython: expand(section.get('serverPython', ''), scope),
  };
}

/** `${workspaceFolder}`, `${userHome}` and a leading `~`, as in other path settings. */
export function expand(value: string, scope?: vscode.Uri): string {
  const home = process.env.HOME ?? process.env.USERPROFILE ?? '';
  const folder = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
  return value
    .trim()
    .replace(/^~(?=$|[/\\])/, home)
    .replaceAll('${userHome}', home)
    .replaceAll('${workspaceFolder}', folder?.uri.fsPath ?? '');
}
