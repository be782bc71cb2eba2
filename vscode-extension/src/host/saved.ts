/** Says that something was saved, and leads to it. */
import * as vscode from 'vscode';

/** `file` is what *Open* opens. */
export async function saved(text: string, file: vscode.Uri): Promise<void> {
  const picked = await vscode.window.showInformationMessage(text, 'Open', 'Reveal');
  if (picked === 'Open') await vscode.commands.executeCommand('vscode.open', file);
  if (picked === 'Reveal') await vscode.commands.executeCommand(vscode.workspace.getWorkspaceFolder(file) ? 'revealInExplorer' : 'revealFileInOS', file);
}
