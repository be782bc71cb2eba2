/** Activation, trust and restarts, with a stand-in for the language client. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

const clients = vi.hoisted(() => [] as any[]);
vi.mock('vscode-languageclient', async () => ({
  ...(await vi.importActual<object>('vscode-languageserver-protocol')),
  RevealOutputChannelOn: { Never: 4 },
  State: { Stopped: 1 },
}));
vi.mock('vscode-languageclient/node', () => ({
  LanguageClient: class {
    running = false;
    sent: [string, unknown][] = [];
    constructor(...args: unknown[]) {
      Object.assign(this, { args });
      clients.push(this);
    }
    isRunning() { return this.running; }
    async start() { this.running = true; }
    async dispose() { this.running = false; }
    registerFeature() {}
    onNotification() {}
    onDidChangeState() {}
    async sendRequest() { return { state: 'ready', python: '/models/python', torch: '2.13.0', message: null }; }
    async sendNotification(type: any, params?: unknown) { this.sent.push([type.method ?? type, params]); }
  },
}));

import { activate, deactivate } from '../../src/extension';
import manifest from '../../package.json';
import { state } from './vscode';

const context = () => ({ subscriptions: [], asAbsolutePath: (p: string) => `/ext/${p}`, extension: { packageJSON: manifest } }) as any;
const options = (client: any) => client.args[3];

beforeEach(() => {
  state.reset();
  clients.length = 0;
  state.settings['fxlens.serverPython'] = '/server/python';
});

describe('starting', () => {
  it('runs the bundled server isolated from the environment and the folder', async () => {
    await activate(context());
    const server = clients[0].args[2];
    expect([server.command, ...server.args]).toEqual(['/server/python', '-I', '/ext/bundled/serve.py']);
    expect(server.options.cwd).not.toBe(process.cwd());
  });

  it('registers the commands of the manifest', async () => {
    await activate(context());
    expect([...state.commands.keys()].sort()).toEqual(manifest.contributes.commands.map(c => c.command).sort());
  });

  it('stops the server with the extension', async () => {
    await activate(context());
    await deactivate();
    expect(clients[0].running).toBe(false);
  });
});

describe('trust', () => {
  it('is told to the server at the start', async () => {
    state.trusted = false;
    await activate(context());
    expect(options(clients[0]).initializationOptions()).toEqual({ trusted: false });
  });

  it('is told when it is granted, and the settings are read again after it', async () => {
    state.trusted = false;
    await activate(context());
    state.trusted = true;
    await state.grant.fire();
    expect(clients).toHaveLength(1);
    expect(clients[0].sent.map(([method]: [string]) => method)).toEqual(['fxlens/trusted', 'workspace/didChangeConfiguration']);
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens' });
    expect(clients[0].sent.at(-1)[0]).toBe('workspace/didChangeConfiguration');
  });
});

describe('settings', () => {
  it('restart the server when its interpreter changes, and only then', async () => {
    await activate(context());
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens' });
    expect(clients).toHaveLength(1);
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens.serverPython' });
    expect(clients).toHaveLength(2);
    expect(clients.map(c => c.running)).toEqual([false, true]);
  });

  it('reach the server with the interpreter filled in, and without the server’s own', async () => {
    state.settings['fxlens.python'] = '/models/python';
    await activate(context());
    const ask = options(clients[0]).middleware.workspace.configuration;
    const items = { items: [{ section: 'fxlens' }, { section: 'editor' }] };
    const answer = await ask(items, undefined, async () => [{ python: '', serverPython: '/x', deadline: 5 }, { tabSize: 4 }]);
    expect(answer).toEqual([{ python: '/models/python', pythonFrom: 'the setting fxlens.python', serverPython: '', deadline: 5 }, { tabSize: 4 }]);
  });

  it('start another server when the one before does not end', async () => {
    await activate(context());
    clients[0].dispose = async () => { clients[0].running = false; throw new Error('Stopping the server timed out'); };
    await state.commands.get('fxlens.restart')!();
    expect(clients.map(c => c.running)).toEqual([false, true]);
  });

  it('leave one server when restarts come fast', async () => {
    await activate(context());
    await Promise.all([state.commands.get('fxlens.restart')!(), state.commands.get('fxlens.restart')!()]);
    expect(clients.filter(c => c.running)).toHaveLength(1);
  });
});
