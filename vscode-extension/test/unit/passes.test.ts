/** Keeping the result of passes: a function in the source. */
import { beforeEach, expect, it, vi } from 'vitest';

vi.mock('vscode-languageclient', async () => ({ ...await vi.importActual<object>('vscode-languageserver-protocol'), State: {} }));
vi.mock('../../src/host/server', () => ({ createClient: () => undefined }));

import { registerPasses } from '../../src/host/passes/preview';
import * as vscode from './vscode';

beforeEach(() => vscode.state.reset());

it('is left to the server, which knows where the class is by now', async () => {
  const asked: [string, any][] = [];
  const answers: Record<string, object> = {
    'fxlens/passes': { passes: [{ name: 'fuse', label: 'Fuse', detail: '', places: 1 }], activations: {} },
    'fxlens/pass': { target: 'Net', error: 0, nodes: [4, 3], refused: [], notes: [], library: true, construction: 'def fused_net():\n', kept: '1' },
    'fxlens/insertPass': { reason: 'Nothing is inserted.' },
  };
  const client = {
    code2ProtocolConverter: { asUri: String }, onProgress: () => ({ dispose() {} }),
    sendRequest: async ({ method }: { method: string }, params: unknown) => (asked.push([method, params]), answers[method]),
  };
  vscode.commands.executeCommand.mockImplementation(async (_, before, after) => {
    vscode.window.tabGroups.activeTabGroup.activeTab = { input: new vscode.TabInputTextDiff(before, after) };
  });
  registerPasses({ requireClient: async () => client } as any);
  await vscode.state.commands.get('fxlens.fuse')!('file:///w/net.py', 'Net');
  await vscode.state.commands.get('fxlens.insertResult')!();
  expect(asked.at(-1)).toEqual(['fxlens/insertPass', { uri: 'file:///w/net.py', target: 'Net', text: 'def fused_net():\n' }]);
  expect(vscode.window.showErrorMessage).toHaveBeenCalledWith('Nothing is inserted.');
});
