/** The tools that agents of VS Code may call. The manifest describes them; the server answers. */
import * as vscode from 'vscode';
import type { Lens } from './lens';
import { ask } from '../protocol/agents';

const PREFIX = 'fxlens_';

/** The part of VS Code's API (1.95) that is used here: the extension also runs where it is missing. */
interface LanguageModels {
  registerTool?(name: string, tool: {
    prepareInvocation(options: { input: Input }): { invocationMessage: string };
    invoke(options: { input: Input }, token: vscode.CancellationToken): Promise<unknown>;
  }): vscode.Disposable;
}
type Input = Record<string, unknown>;

export function registerAgents(lens: Lens, names: string[]): vscode.Disposable[] {
  const api = vscode as unknown as {
    lm?: LanguageModels;
    LanguageModelToolResult: new (parts: unknown[]) => unknown;
    LanguageModelTextPart: new (text: string) => unknown;
  };
  if (!api.lm?.registerTool) return [];
  const { registerTool } = api.lm;
  return names.map(name => registerTool(name, {
    prepareInvocation: ({ input }) => ({ invocationMessage: `FX Lens: ${name.slice(PREFIX.length)} ${String(input.file ?? '')}` }),
    invoke: async ({ input }, token) => {
      const text = await answer(lens, name.slice(PREFIX.length), input, token);
      return new api.LanguageModelToolResult([new api.LanguageModelTextPart(text)]);
    },
  }));
}

/** The server's answer; throws an error for the agent to read. */
async function answer(lens: Lens, tool: string, input: Input, token: vscode.CancellationToken): Promise<string> {
  const client = await lens.settled();
  if (!client) throw new Error('The FX Lens server is not running. Its status item says why.');
  const unsaved = vscode.workspace.textDocuments
    .filter(each => each.isDirty || each.isUntitled)
    .map(each => client.code2ProtocolConverter.asUri(each.uri));
  const said = await client.sendRequest(ask, { tool, arguments: input, unsaved }, token);
  if ('reason' in said) throw new Error(said.reason);
  return said.text;
}
