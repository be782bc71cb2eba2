/** Example inputs, kept where everyone who reads the model sees them: in a comment on its class. */
import * as vscode from 'vscode';
import { activeSource } from './code/addresses';
import type { Lens } from './lens';

/** Asks for the construction and the inputs of a model, and writes them into the comment above its class. */
export async function editInputs(lens: Lens, uri: unknown, target: unknown): Promise<void> {
  const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
  if (!source) return;
  const name = typeof target === 'string' ? target : await lens.pickTarget(source);
  const found = (await lens.record(source))?.record.targets.find(each => each.name === name);
  if (!found) return;
  const construct = found.construct?.text ?? `${found.name}()`;
  const inputs = found.inputs?.text ?? 'torch.randn(1, 3, 224, 224)';
  const value = await vscode.window.showInputBox({
    title: `Example inputs of ${found.name}`,
    prompt: 'How it is constructed, an arrow, and the arguments of forward',
    value: `${construct} <- ${inputs}`,
    valueSelection: [construct.length + 4, construct.length + 4 + inputs.length],
    validateInput: text => (text.includes('<-') ? undefined : 'Write: Model(…) <- torch.randn(…)'),
  });
  if (value === undefined) return;
  const document = await vscode.workspace.openTextDocument(source);
  const edit = new vscode.WorkspaceEdit();
  const comment = found.inputs?.source === 'comment' ? found.inputs : found.construct?.source === 'comment' ? found.construct : undefined;
  const { line, insert } = commentPlace(index => document.lineAt(index).text, found.line, comment?.line ?? null);
  const at = document.lineAt(line);
  const indent = at.text.slice(0, at.firstNonWhitespaceCharacterIndex);
  const text = `${indent}# fxlens: ${value.trim()}`;
  if (insert) edit.insert(source, at.range.start, `${text}\n`);
  else edit.replace(source, at.range, text);
  await vscode.workspace.applyEdit(edit);
}

/** Where the comment goes (line from 0): in place of the one that is there, else above the class and its decorators. */
export function commentPlace(lineAt: (line: number) => string, classLine: number, comment: number | null): { line: number; insert: boolean } {
  if (comment !== null && /^\s*#\s*fxlens:/.test(lineAt(comment - 1))) return { line: comment - 1, insert: false };
  let line = classLine - 1;
  while (line > 0 && /^\s*@/.test(lineAt(line - 1))) line--;
  return { line, insert: true };
}
