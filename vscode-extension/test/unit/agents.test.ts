/** The tools of agents: what is asked of the server, and what an older VS Code makes of them. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

vi.mock('vscode-languageclient', async () => await vi.importActual<object>('vscode-languageserver-protocol'));

import { registerAgents } from '../../src/host/agents';
import manifest from '../../package.json';
import { Disposable, lm, state, workspace } from './vscode';

const names = manifest.contributes.languageModelTools.map(tool => tool.name);
const token = { isCancellationRequested: false };

function lens(answer: unknown, running = true) {
  const sent: [string, any, unknown][] = [];
  const client = {
    code2ProtocolConverter: { asUri: String },
    sendRequest: async (type: any, params: unknown, token: unknown) => (sent.push([type.method, params, token]), answer),
  };
  return { settled: async () => (running ? client : undefined), sent } as any;
}

beforeEach(() => {
  state.reset();
  workspace.textDocuments.length = 0;
  lm.tools.clear();
  lm.registerTool = (name, tool) => {
    lm.tools.set(name, tool);
    return new Disposable(() => lm.tools.delete(name));
  };
});

describe('the tools of agents', () => {
  it('are those of the manifest, each of which says when to use it', () => {
    const registered = registerAgents(lens({ text: '{}' }), names);
    expect([...lm.tools.keys()]).toEqual(names);
    for (const tool of manifest.contributes.languageModelTools) expect(tool.modelDescription).toContain('Use it');
    const references = manifest.contributes.languageModelTools.map(tool => tool.toolReferenceName);
    expect(new Set(references).size).toBe(names.length);
    registered.forEach(each => each.dispose());
    expect(lm.tools.size).toBe(0);
  });

  it('ask the server about the text as it is now', async () => {
    const document = (uri: string, isDirty: boolean, isUntitled = false) => ({ uri, isDirty, isUntitled });
    workspace.textDocuments.push(document('file:///w/a.py', true), document('file:///w/b.py', false), document('untitled:c', false, true));
    const current = lens({ text: '{"file":"a.py"}' });
    registerAgents(current, names);
    const tool = lm.tools.get('fxlens_shapes');
    expect(tool.prepareInvocation({ input: { file: 'a.py' } })).toEqual({ invocationMessage: 'FX Lens: shapes a.py' });
    const result = await tool.invoke({ input: { file: 'a.py', line: 3 } }, token);
    expect(result.content.map((part: any) => part.value)).toEqual(['{"file":"a.py"}']);
    expect(current.sent).toEqual([
      ['fxlens/ask', { tool: 'shapes', arguments: { file: 'a.py', line: 3 }, unsaved: ['file:///w/a.py', 'untitled:c'] }, token],
    ]);
  });

  it('tell the agent why there is no answer', async () => {
    registerAgents(lens({ reason: 'graph needs a file' }), names);
    await expect(lm.tools.get('fxlens_graph').invoke({ input: {} }, token)).rejects.toThrow('graph needs a file');
    registerAgents(lens({}, false), names);
    await expect(lm.tools.get('fxlens_graph').invoke({ input: {} }, token)).rejects.toThrow('not running');
  });

  it('are left out where VS Code has none', () => {
    lm.registerTool = undefined;
    expect(registerAgents(lens({ text: '{}' }), names)).toEqual([]);
  });
});
