/** Connects the parts; each part is in its own file. */
import * as vscode from 'vscode';
import { registerAgents } from './host/agents';
import { registerCode } from './host/code/documents';
import { registerPasses } from './host/passes/preview';
import { registerCommands } from './host/commands';
import { onEnvironmentMade, onInterpreterChange } from './host/python';
import { RESTART_KEYS, SECTION } from './host/settings';
import { registerGraph } from './host/graph/views';
import { Lens } from './host/lens';
import { registerModels } from './host/models/panel';
import { registerNotebooks } from './host/notebooks';
import { registerLowering } from './host/lowering/commands';
import { registerCursor } from './host/cursor';

let lens: Lens | undefined;

/** Returns at once: VS Code runs a command only afterwards, on the editor that is active then. Commands wait for the server themselves. */
export function activate(context: vscode.ExtensionContext): void {
  const current = new Lens(context);
  lens = current;
  /** Waits for nothing: the Python extension may take long to activate, or fail. */
  const followInterpreter = () => {
    const changed = () => void current.settingsChanged();
    context.subscriptions.push(onEnvironmentMade(changed));
    onInterpreterChange(changed).then(
      each => context.subscriptions.push(each),
      error => current.logger.warn(`The interpreter of the Python extension is not followed: ${String(error)}`),
    );
  };
  context.subscriptions.push(
    current,
    ...registerCommands(current),
    registerCursor(current),
    registerNotebooks(current),
    ...registerGraph(context, current),
    ...registerCode(current),
    ...registerPasses(current),
    ...registerLowering(context, current),
    ...registerModels(context, current),
    ...registerAgents(current, context.extension.packageJSON.contributes.languageModelTools.map((tool: { name: string }) => tool.name)),
    vscode.workspace.onDidGrantWorkspaceTrust(async () => {
      followInterpreter();
      await current.trustGranted();
    }),
    // Right after trust is granted the settings still have their restricted values; the final ones arrive here.
    vscode.workspace.onDidChangeConfiguration(async event => {
      if (RESTART_KEYS.some(key => event.affectsConfiguration(key))) await current.restart();
      else if (event.affectsConfiguration(SECTION)) await current.settingsChanged();
    }),
  );
  if (vscode.workspace.isTrusted) followInterpreter();
  void current.start();
}

export async function deactivate(): Promise<void> {
  await lens?.stop();
}
