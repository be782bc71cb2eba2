/** Brings a text, or a cell of a notebook, to the front. */
import * as vscode from 'vscode';
import { fileOf, notebookOf } from './addresses';

/** How long VS Code may take to create the editor of a revealed cell. */
const EDITOR_MS = 3000;

export async function showText(uri: vscode.Uri, focus: boolean): Promise<vscode.TextEditor | undefined> {
  const notebook = notebookOf(uri);
  const beside = editorOf(uri);
  if (!notebook) {
    return vscode.window.showTextDocument(uri, { viewColumn: beside?.viewColumn ?? vscode.ViewColumn.One, preserveFocus: !focus, preview: true });
  }
  const at = notebook.getCells().findIndex(cell => String(cell.document.uri) === String(uri));
  const shown = vscode.window.visibleNotebookEditors.find(editor => editor.notebook === notebook);
  await vscode.window.showNotebookDocument(notebook, {
    viewColumn: shown?.viewColumn ?? vscode.ViewColumn.One, preserveFocus: !focus, selections: [new vscode.NotebookRange(at, at + 1)],
  });
  return editorOf(uri) ?? await arriving(uri);
}

export function editorOf(uri: vscode.Uri): vscode.TextEditor | undefined {
  return vscode.window.visibleTextEditors.find(each => String(each.document.uri) === String(uri));
}

/** An editor of a file, or of a cell of a notebook: preferably the active one, otherwise a visible one. */
export function editorOfFile(file: vscode.Uri): vscode.TextEditor | undefined {
  return [vscode.window.activeTextEditor, ...vscode.window.visibleTextEditors].find(each => each && String(fileOf(each.document)) === String(file));
}

function arriving(uri: vscode.Uri): Promise<vscode.TextEditor | undefined> {
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer);
      change.dispose();
      resolve(editorOf(uri));
    };
    const timer = setTimeout(end, EDITOR_MS);
    const change = vscode.window.onDidChangeVisibleTextEditors(() => { if (editorOf(uri)) end(); });
  });
}
