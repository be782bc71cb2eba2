/** Reports a saved file, with a button to open it. */
import * as vscode from 'vscode';

/** *Open* opens `file`. */
export async function saved(text: string, file: vscode.Uri): Promise<void> {
  const picked = await vscode.window.showInformationMessage(text, 'Open', 'Reveal');
  if (picked === 'Open') await vscode.commands.executeCommand('vscode.open', file);
  if (picked === 'Reveal') await vscode.commands.executeCommand(vscode.workspace.getWorkspaceFolder(file) ? 'revealInExplorer' : 'revealFileInOS', file);
}
