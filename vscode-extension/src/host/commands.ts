/** The commands that work in every state of the extension, and the menu of the status item. */
import * as vscode from 'vscode';
import * as protocol from '../protocol/lsp';
import { activeSource } from './code/addresses';
import { type Lens, openAgain } from './lens';
import { editInputs } from './inputs';
import { recordRun } from './recording';
import { openRule } from './rules';
import { SECTION } from './settings';
import { watch } from './watch';

export function registerCommands(lens: Lens): vscode.Disposable[] {
  const table: Record<string, (...args: any[]) => unknown> = {
    'fxlens.trace': () => traceNow(lens),
    'fxlens.restart': () => lens.restart(),
    'fxlens.showLogs': () => lens.logger.show(),
    'fxlens.debugInfo': () => showDebugInfo(lens),
    'fxlens.showMenu': () => showMenu(lens),
    'fxlens.showProblems': () => vscode.commands.executeCommand('workbench.actions.view.problems'),
    'fxlens.openRule': () => openRule(),
    'fxlens.editInputs': (uri, target) => editInputs(lens, uri, target),
    'fxlens.keep': () => keep(lens),
    'fxlens.watch': (uri, target) => watch(lens, uri, target),
    'fxlens.recordRun': () => recordRun(lens),
    'fxlens.toggleShapes': () => toggleShapes(),
    'fxlens.chooseInterpreter': () => chooseInterpreter(),
  };
  return Object.entries(table).map(([name, run]) => vscode.commands.registerCommand(name, run));
}

async function traceNow(lens: Lens): Promise<void> {
  const source = activeSource();
  if (!source) return;
  const client = await lens.requireClient();
  await openAgain(source);
  await client?.sendRequest(protocol.trace, { uri: client.code2ProtocolConverter.asUri(source) });
}

/** Writes the found construction into a comment above its class: a command of the server. */
async function keep(lens: Lens): Promise<void> {
  const source = activeSource();
  const name = source && await lens.pickTarget(source, { traced: false });
  const client = name ? await lens.requireClient() : undefined;
  if (client) await vscode.commands.executeCommand('fxlens.keepConstruction', client.code2ProtocolConverter.asUri(source!), name);
}

async function showDebugInfo(lens: Lens): Promise<void> {
  const client = lens.client?.isRunning() ? lens.client : undefined;
  const server = client ? (await client.sendRequest(protocol.debugInfo, {})).text : 'The server is not running.';
  const lines = [
    `VS Code ${vscode.version} (${vscode.env.appHost}), ${process.platform} ${process.arch}`,
    `FX Lens ${lens.version}, workspace ${vscode.workspace.isTrusted ? 'trusted' : 'not trusted'}`,
    `server interpreter: ${lens.serverInterpreter ?? 'none'}`,
    '',
    server,
  ];
  const document = await vscode.workspace.openTextDocument({ content: lines.join('\n'), language: 'markdown' });
  await vscode.window.showTextDocument(document, { preview: true });
}

async function showMenu(lens: Lens): Promise<void> {
  const { state, torch, python, interpreter, message } = lens.status.current;
  const items: (vscode.QuickPickItem & { run: string | (() => unknown) })[] = [
    { label: '$(play) Trace this file now', run: 'fxlens.trace' },
    ...(vscode.workspace.isTrusted ? [{ label: '$(record) Record a run of this file', run: 'fxlens.recordRun' }] : []),
    { label: '$(table) Models of this workspace', run: 'fxlens.showModels' },
    { label: '$(output) Show logs', run: 'fxlens.showLogs' },
    { label: '$(debug-restart) Restart server', run: 'fxlens.restart' },
    { label: '$(info) Show debug information', run: 'fxlens.debugInfo' },
    {
      label: '$(gear) Open settings',
      run: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:fxlens.fx-lens'),
    },
  ];
  // Without torch, nothing else helps.
  items.splice(state === 'error' ? 0 : items.findIndex(({ run }) => run === 'fxlens.showModels'), 0, { label: '$(snake) Choose interpreter…', description: interpreter ?? undefined, run: 'fxlens.chooseInterpreter' });
  if (!vscode.workspace.isTrusted) {
    items.unshift({ label: '$(shield) Manage workspace trust', run: 'workbench.trust.manage' });
  }
  const picked = await vscode.window.showQuickPick(items, {
    title: 'FX Lens',
    placeHolder: message ?? [torch && `torch ${torch}`, python].filter(Boolean).join(' · '),
  });
  if (typeof picked?.run === 'string') await vscode.commands.executeCommand(picked.run);
  else await picked?.run();
}

/** By the Python extension, whose choice all extensions share; otherwise by our own setting. */
async function chooseInterpreter(): Promise<void> {
  if (vscode.extensions.getExtension('ms-python.python')) await vscode.commands.executeCommand('python.setInterpreter');
  else await vscode.commands.executeCommand('workbench.action.openSettings', 'fxlens.python');
}

/** Where the setting has its value: anywhere else, the change would have no effect. */
async function toggleShapes(): Promise<void> {
  const settings = vscode.workspace.getConfiguration(SECTION, activeSource());
  const set = settings.inspect('shapes');
  const { Global, Workspace, WorkspaceFolder } = vscode.ConfigurationTarget;
  const where = set?.workspaceFolderValue !== undefined ? WorkspaceFolder : set?.workspaceValue !== undefined ? Workspace : Global;
  await settings.update('shapes', !settings.get('shapes', true), where);
}
