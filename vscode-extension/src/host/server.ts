/** Makes the language client: how the server is started, which documents it sees, and which settings it gets. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import {
  type ClientCapabilities, type ConfigurationParams, type FeatureState, type LanguageClientOptions, RevealOutputChannelOn,
  type StaticFeature,
} from 'vscode-languageclient';
import { LanguageClient, type ServerOptions } from 'vscode-languageclient/node';
import type { InitializationOptions } from '../protocol/lsp';
import type { Logger } from './logger';
import { workerPython } from './python';
import { SECTION } from './settings';

export const DOCUMENTS = [
  { language: 'python', scheme: 'file' },
  { language: 'python', scheme: 'untitled' },
  // Cells: the server declares which notebooks it handles.
  { language: 'python', notebook: '*' },
  // The views: the server also answers hover, shapes and go-to-definition in them.
  { scheme: 'fxlens' },
];

const LENS_COMMANDS = [
  'fxlens.showProblems', 'fxlens.showGraph', 'fxlens.showCode', 'fxlens.showTable', 'fxlens.lower', 'fxlens.bench', 'fxlens.applyPass',
  'fxlens.editInputs', 'fxlens.chooseInterpreter', 'fxlens.watch',
];

export function createClient(python: string, script: string, logger: Logger): LanguageClient {
  // -I: the user's path, environment variables and working folder must not affect the server's imports.
  const serverOptions: ServerOptions = {
    command: python,
    args: ['-I', script],
    options: { cwd: os.tmpdir(), env: { ...process.env, PYTHONUNBUFFERED: '1' } },
  };
  const clientOptions: LanguageClientOptions = {
    documentSelector: DOCUMENTS,
    outputChannel: logger,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    // Asked for at each start, also of a server in place of one that has crashed.
    initializationOptions: (): InitializationOptions => ({ trusted: vscode.workspace.isTrusted }),
    synchronize: { configurationSection: undefined },
    middleware: {
      workspace: {
        configuration: async (params, token, next) => fillIn(params, await next(params, token), logger),
      },
    },
  };
  const client = new LanguageClient('fxlens', 'FX Lens', serverOptions, clientOptions);
  client.registerFeature(new OwnCommands());
  return client;
}

/** Replaces an empty `fxlens.python` by the found interpreter, so that the server need not search for one. */
async function fillIn(params: ConfigurationParams, answer: unknown, logger: Logger): Promise<any> {
  if (!Array.isArray(answer)) return answer;
  return Promise.all(params.items.map(async (item, index) => {
    if (item.section !== SECTION || typeof answer[index] !== 'object' || answer[index] === null) return answer[index];
    const scope = item.scopeUri ? vscode.Uri.parse(item.scopeUri) : vscode.workspace.workspaceFolders?.[0]?.uri;
    return { ...answer[index], ...(await workerPython(scope, logger)), serverPython: '' };
  }));
}

/** Tells the server which commands a code lens may use, since other editors lack them. */
class OwnCommands implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    capabilities.experimental = { commands: LENS_COMMANDS };
  }
  initialize(): void {}
  getState(): FeatureState {
    return { kind: 'static' };
  }
  clear(): void {}
}
