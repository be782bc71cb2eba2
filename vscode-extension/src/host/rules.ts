/** The pages of the rules: the meaning of a problem, and how to fix it. */
import * as vscode from 'vscode';

const SOURCE = 'fxlens';

interface Rule extends vscode.QuickPickItem {
  page: vscode.Uri;
}

/** Opens the page of the rule at the cursor; otherwise of one chosen from those of the open files. */
export async function openRule(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const here = editor ? rules(vscode.languages.getDiagnostics(editor.document.uri).filter(each => each.range.contains(editor.selection.active))) : [];
  const all = here.length ? here : rules(vscode.languages.getDiagnostics().flatMap(([, each]) => each));
  if (!all.length) {
    void vscode.window.showInformationMessage('The open files have no problems of FX Lens.');
    return;
  }
  const picked = all.length === 1 ? all[0] : await vscode.window.showQuickPick(all, { title: 'Which rule?', matchOnDescription: true });
  if (picked) await show(picked.page);
}

function rules(diagnostics: vscode.Diagnostic[]): Rule[] {
  const found = new Map<string, Rule>();
  for (const { source, code, message } of diagnostics) {
    if (source !== SOURCE || typeof code !== 'object' || found.has(String(code.value))) continue;
    found.set(String(code.value), { label: String(code.value), description: message, page: code.target });
  }
  return [...found.values()].sort((a, b) => a.label.localeCompare(b.label));
}

async function show(page: vscode.Uri): Promise<void> {
  if (page.scheme === 'file') await vscode.commands.executeCommand('markdown.showPreview', page);
  else await vscode.env.openExternal(page);
}
