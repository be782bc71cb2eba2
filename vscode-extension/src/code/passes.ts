/** Passes on a model: a diff of the generated forward before and after, the numbers beside it, and the result to keep. */
import * as vscode from 'vscode';
import type { Lens } from '../lens';
import { type PassAnswer, pass } from '../protocol/code';
import { summary } from './summary';

const SCHEME = 'fxlens-pass';
const PASSES: (vscode.QuickPickItem & { name: string })[] = [
  { name: 'fuse', label: 'Fuse convolutions and batch norms', detail: 'A batch norm becomes part of the weights before it' },
  { name: 'dropout', label: 'Remove dropout', detail: 'In evaluation mode it does nothing' },
  { name: 'dead-code', label: 'Remove dead code', detail: 'Nodes whose result nobody uses' },
  { name: 'common', label: 'Share common subexpressions', detail: 'What is computed twice is computed once' },
];

export function registerPasses(lens: Lens): vscode.Disposable[] {
  const texts = new Map<string, string>();
  return [
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, { provideTextDocumentContent: uri => texts.get(String(uri)) ?? '' }),
    vscode.workspace.onDidCloseTextDocument(document => { texts.delete(String(document.uri)); }),
    vscode.commands.registerCommand('fxlens.applyPass', (uri?: unknown, target?: unknown) => applyPass(lens, texts, uri, target)),
  ];
}

async function applyPass(lens: Lens, texts: Map<string, string>, uri: unknown, target: unknown): Promise<void> {
  const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : vscode.window.activeTextEditor?.document.uri;
  if (!source) return;
  const name = typeof target === 'string' ? target : await lens.pickTarget(source);
  const chosen = name && (await vscode.window.showQuickPick(PASSES, { title: `Pass on ${name}` }));
  if (!name || !chosen) return;
  const ask = (out: string) => vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: `${chosen.label}: ${name}` }, () => run(lens, source, name, chosen.name, out));
  const answer = await ask('');
  if (!answer) return;
  await showDiff(texts, answer, chosen.label);
  const save = 'Save as Module Folder…';
  if ((await vscode.window.showInformationMessage(summary(answer), save)) !== save) return;
  const folder = await vscode.window.showOpenDialog({
    canSelectFiles: false, canSelectFolders: true, openLabel: 'Save Model Here', defaultUri: vscode.Uri.joinPath(source, '..'),
  });
  if (folder?.[0] && (await ask(folder[0].fsPath))) {
    void vscode.window.showInformationMessage(`${name} is saved in ${folder[0].fsPath}: module.py and its state.`);
  }
}

async function run(lens: Lens, source: vscode.Uri, target: string, name: string, out: string): Promise<PassAnswer | undefined> {
  const client = await lens.requireClient();
  if (!client) return undefined;
  const answer = await client.sendRequest(pass, { uri: client.code2ProtocolConverter.asUri(source), target, name, out });
  if (!('reason' in answer)) return answer;
  void vscode.window.showErrorMessage(answer.reason);
  return undefined;
}

async function showDiff(texts: Map<string, string>, answer: PassAnswer, label: string): Promise<void> {
  const side = (which: 'before' | 'after') => {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${answer.target}.${which}.py`, query: String(Date.now()) });
    texts.set(String(uri), answer[which]);
    return uri;
  };
  await vscode.commands.executeCommand('vscode.diff', side('before'), side('after'), `${answer.target}: ${label}`, { preview: true });
}
