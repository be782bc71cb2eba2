/** Runs the active file, or the cells of the active notebook, with the recorder in it, so that its classes are constructed and called as it does. */
import * as vscode from 'vscode';
import * as protocol from '../protocol/lsp';
import { activeSource } from './code/addresses';
import { askForTrust } from './lacks';
import type { Lens } from './lens';
import { serverPython, workerPython } from './python';

/** Runs it in a terminal, where the program may read input and be interrupted; then the file is traced again with the recording. */
export async function recordRun(lens: Lens): Promise<void> {
  const source = activeSource();
  if (!source) return;
  if (!vscode.workspace.isTrusted) return askForTrust('so no run is recorded');
  if (source.scheme !== 'file') return void vscode.window.showInformationMessage('Save the file first: a run is recorded from a file.');
  const notebook = vscode.workspace.notebookDocuments.find(each => String(each.uri) === String(source));
  await (notebook ?? await vscode.workspace.openTextDocument(source)).save();
  const server = await serverPython(lens.logger);
  if (!server) return void (await lens.requireClient());
  const folder = vscode.workspace.getWorkspaceFolder(source);
  const { python } = await workerPython(source, lens.logger);
  const command = recordCommand(lens.script, python, source.fsPath);
  const run = new vscode.ProcessExecution(server, command, { cwd: folder?.uri.fsPath ?? vscode.Uri.joinPath(source, '..').fsPath });
  const task = new vscode.Task({ type: 'fxlens' }, folder ?? vscode.TaskScope.Workspace, 'Record a Run', 'FX Lens', run);
  const execution = await vscode.tasks.executeTask(task);
  const ended = vscode.tasks.onDidEndTaskProcess(async event => {
    if (event.execution !== execution) return;
    ended.dispose();
    const client = await lens.requireClient();
    await client?.sendRequest(protocol.trace, { uri: client.code2ProtocolConverter.asUri(source) });
  });
}

/** Arguments for the server's interpreter. */
export function recordCommand(script: string, python: string, file: string): string[] {
  return ['-I', script, 'record', '--', python || 'python', file];
}
