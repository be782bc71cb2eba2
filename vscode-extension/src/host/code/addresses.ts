/** The addresses of views, and the source of a document: a view has the source that it was made from, a cell its notebook. */
import * as vscode from 'vscode';
import type { View } from '../../protocol/code';

export const SCHEME = 'fxlens';
const CELL = 'vscode-notebook-cell';
const SUFFIX: Record<View, string> = { code: 'forward.py', table: 'nodes.txt', graph: 'graph.txt' };
/** Schemes of the documents that the server sees, see DOCUMENTS in server.ts: a diff's sides are Python too. */
const SOURCES = ['file', 'untitled'];
/** The same for notebooks, see `features/notebooks.py`. */
const NOTEBOOKS = [...SOURCES, 'vscode-interactive'];

export interface Subject {
  source: vscode.Uri;
  target: string;
  view: View;
}

/** The address of a view: a readable name for the tab, and its subject in the query. */
export function addressOf({ source, target, view }: Subject): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: `/${target}.${SUFFIX[view]}`, query: JSON.stringify([String(source), target, view]) });
}

export function subjectOf(address: vscode.Uri): Subject {
  const [source, target, view] = JSON.parse(address.query) as [string, string, View];
  return { source: vscode.Uri.parse(source), target, view };
}

/** The notebooks of known cells, by address: used on every key press. */
const notebooks = new Map<string, vscode.NotebookDocument>();

/** The notebook that has a cell of this address. */
export function notebookOf(cell: vscode.Uri): vscode.NotebookDocument | undefined {
  if (cell.scheme !== CELL) return undefined;
  const known = notebooks.get(String(cell));
  if (known && vscode.workspace.notebookDocuments.includes(known)) return known;
  notebooks.clear();
  for (const each of vscode.workspace.notebookDocuments) {
    for (const { document } of each.getCells()) notebooks.set(String(document.uri), each);
  }
  return notebooks.get(String(cell));
}

/** The file that a text is, or is a cell of. */
export function fileOf({ uri }: Pick<vscode.TextDocument, 'uri'>): vscode.Uri {
  return notebookOf(uri)?.uri ?? uri;
}

/** The Python file or the notebook that a document is, is a cell of, or is a view of; undefined for any other. */
export function sourceOf(document: Pick<vscode.TextDocument, 'uri' | 'languageId'> | undefined): vscode.Uri | undefined {
  if (document?.uri.scheme === SCHEME) return subjectOf(document.uri).source;
  if (document?.languageId !== 'python') return undefined;
  const known = document.uri.scheme === CELL ? NOTEBOOKS : SOURCES;
  const file = fileOf(document);
  return known.includes(file.scheme) ? file : undefined;
}

/** The user's current document: in a notebook without an active editor, its selected cell. */
export function activeDocument(): vscode.TextDocument | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor) return editor.document;
  const { notebook, selection } = vscode.window.activeNotebookEditor ?? {};
  return notebook && selection && selection.start < notebook.cellCount ? notebook.cellAt(selection.start).document : undefined;
}

/** The source of the user's current document; also for a Markdown cell of a notebook. */
export function sourceHere(): vscode.Uri | undefined {
  const document = activeDocument();
  const notebook = document && notebookOf(document.uri)?.uri;
  return notebook && NOTEBOOKS.includes(notebook.scheme) ? notebook : sourceOf(document);
}

/** The same; shows a message if there is none. */
export function activeSource(): vscode.Uri | undefined {
  const source = sourceHere();
  if (!source) void vscode.window.showInformationMessage('Open a Python file or a notebook first: FX Lens works on the models in them.');
  return source;
}
