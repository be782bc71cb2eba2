/** What is lacking for a command, said to the user. */
import * as vscode from 'vscode';

export const NOT_RUNNING = 'The FX Lens server is not running.';

/** Says what is lacking while the workspace is not trusted. */
export async function askForTrust(lacking: string): Promise<void> {
  const manage = 'Manage Trust';
  const picked = await vscode.window.showInformationMessage(`FX Lens runs no code before the workspace is trusted, ${lacking}.`, manage);
  if (picked === manage) await vscode.commands.executeCommand('workbench.trust.manage');
}
