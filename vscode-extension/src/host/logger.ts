/** The one log channel: the extension's own lines, and what the server writes to its standard error. */
import * as vscode from 'vscode';

export type Logger = vscode.LogOutputChannel;

export function createLogger(): Logger {
  return vscode.window.createOutputChannel('FX Lens', { log: true });
}
