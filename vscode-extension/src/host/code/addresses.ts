/** The addresses of views, and the source of a document: a view has the source that it was made from. */
import * as vscode from 'vscode';
import type { View } from '../../protocol/code';

export const SCHEME = 'fxlens';
const SUFFIX: Record<View, string> = { code: 'forward.py', table: 'nodes.txt', graph: 'graph.txt' };
/** Schemes of the documents that the server sees, see DOCUMENTS in server.ts: a diff's sides are Python too. */
const SOURCES = ['file', 'untitled'];

export interface Subject {
  source: vscode.Uri;
  target: string;
  view: View;
}

/** The address of a view: a name to read in the tab, and what it shows in the query. */
export function addressOf({ source, target, view }: Subject): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: `/${target}.${SUFFIX[view]}`, query: JSON.stringify([String(source), target, view]) });
}

export function subjectOf(address: vscode.Uri): Subject {
  const [source, target, view] = JSON.parse(address.query) as [string, string, View];
  return { source: vscode.Uri.parse(source), target, view };
}

/** The Python file that a document is, or is a view of; undefined for any other. */
export function sourceOf(document: Pick<vscode.TextDocument, 'uri' | 'languageId'> | undefined): vscode.Uri | undefined {
  if (document?.uri.scheme === SCHEME) return subjectOf(document.uri).source;
  return document?.languageId === 'python' && SOURCES.includes(document.uri.scheme) ? document.uri : undefined;
}

/** The source of what the active editor shows; a message says so where there is none. */
export function activeSource(): vscode.Uri | undefined {
  const source = sourceOf(vscode.window.activeTextEditor?.document);
  if (!source) void vscode.window.showInformationMessage('Open a Python file first: FX Lens works on the models in Python files.');
  return source;
}
