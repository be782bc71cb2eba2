/** Activation, trust and restarts, with a stand-in for the language client. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

const clients = vi.hoisted(() => [] as any[]);
/** What a client waits for until it runs. */
const slow = vi.hoisted(() => ({ start: Promise.resolve() }));
vi.mock('vscode-languageclient', async () => ({
  ...(await vi.importActual<object>('vscode-languageserver-protocol')),
  RevealOutputChannelOn: { Never: 4 },
  State: { Stopped: 1, Running: 2 },
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
    code2ProtocolConverter = { asUri: String };
    async start() {
      await slow.start;
      this.running = true;
      this.changed({ newState: 2 });
    }
    async dispose() { this.running = false; }
    registerFeature() {}
    onNotification() {}
    changed: (event: { newState: number }) => void = () => {};
    onDidChangeState(listener: (event: { newState: number }) => void) { this.changed = listener; }
    async sendRequest(type: any, params?: unknown) {
      this.sent.push([type.method ?? type, params]);
      if (type.method === 'fxlens/record') return null;
      return { state: 'ready', python: '/models/python', torch: '2.13.0', message: null };
    }
    async sendNotification(type: any, params?: unknown) { this.sent.push([type.method ?? type, params]); }
  },
}));

import { activate, deactivate } from '../../src/extension';
import manifest from '../../package.json';
import { ConfigurationTarget, state, tasks, window } from './vscode';

const context = () => ({ subscriptions: [], asAbsolutePath: (p: string) => `/ext/${p}`, extension: { packageJSON: manifest } }) as any;
const options = (client: any) => client.args[3];
const notified = (client: any): string[] => client.sent.map(([method]: [string]) => method).filter((method: string) => !['fxlens/status', 'fxlens/cursor'].includes(method));
/** Activates the extension, and waits until its server runs. */
const started = async () => {
  activate(context());
  await vi.waitFor(() => expect(clients[0]?.running).toBe(true));
};

beforeEach(() => {
  state.reset();
  clients.length = 0;
  slow.start = Promise.resolve();
  state.settings['fxlens.serverPython'] = '/server/python';
});

describe('starting', () => {
  it('runs the bundled server isolated from the environment and the folder', async () => {
    await started();
    const server = clients[0].args[2];
    expect([server.command, ...server.args]).toEqual(['/server/python', '-I', '/ext/bundled/serve.py']);
    expect(server.options.cwd).not.toBe(process.cwd());
  });

  it('offers in its menu what the workspace may do', async () => {
    await started();
    const offered = async () => {
      vi.mocked(window.showQuickPick).mockClear();
      await state.commands.get('fxlens.showMenu')!();
      return (vi.mocked(window.showQuickPick).mock.calls[0] as any)[0].map(({ label }: { label: string }) => label);
    };
    expect(await offered()).toContain('$(record) Record a run of this file');
    state.trusted = false;
    expect(await offered()).not.toContain('$(record) Record a run of this file');
    state.activeDocument = { uri: { scheme: 'file', toString: () => 'file:///net.py' }, languageId: 'python' };
    await state.commands.get('fxlens.recordRun')!();
    expect(tasks.executed).toEqual([]);
  });

  it('offers every command on a model in notebooks, too', () => {
    const without = manifest.contributes.menus.commandPalette.filter(({ when }) => /editorLangId/.test(when) && !/notebookType/.test(when));
    expect(without.map(({ command }) => command)).toEqual([]);
  });

  it('says once that no server runs, not that the file has no models', async () => {
    slow.start = Promise.reject(new Error('no server'));
    state.activeDocument = { uri: { scheme: 'file', toString: () => 'file:///net.py' }, languageId: 'python' };
    activate(context());
    vi.mocked(window.showInformationMessage).mockClear();
    await state.commands.get('fxlens.watch')!();
    expect(window.showErrorMessage).toHaveBeenCalledWith('The FX Lens server is not running.', 'Restart', 'Show logs');
    expect(window.showInformationMessage).not.toHaveBeenCalled();
  });

  it('registers the commands of the manifest', async () => {
    await started();
    expect([...state.commands.keys()].sort()).toEqual(manifest.contributes.commands.map(c => c.command).sort());
  });

  it('runs a command that is given meanwhile on the file that is then in front, and where its cursor is', async () => {
    const editor = (name: string) => ({ uri: { scheme: 'file', toString: () => `file:///${name}` }, languageId: 'python' });
    let ready = () => {};
    slow.start = new Promise(resolve => { ready = resolve; });
    state.activeDocument = editor('first.py');
    expect(activate(context()), 'VS Code would wait for it before it runs the command').toBeUndefined();
    const given = Promise.all(['fxlens.trace', 'fxlens.editInputs'].map(name => state.commands.get(name)!()));
    state.activeDocument = editor('second.py');
    ready();
    await given;
    const about = (method: string) => clients[0].sent.filter(([sent]: [string]) => sent === method).map(([, params]: [string, any]) => params.uri);
    expect(about('fxlens/trace')).toEqual(['file:///first.py']);
    expect(about('fxlens/record')).toEqual(['file:///first.py']);
    const [before] = clients[0].sent.flatMap(([sent]: [string], at: number) => (sent === 'fxlens/record' ? [clients[0].sent.slice(0, at)] : []));
    expect(before.filter(([sent]: [string]) => sent === 'fxlens/cursor').at(-1)[1].uri, 'the class is the one at the cursor of that time').toBe('file:///first.py');
    expect(clients[0].sent.at(-1)).toEqual(['fxlens/cursor', { uri: 'file:///second.py', line: 0 }]);
  });

  it('stops the server with the extension', async () => {
    await started();
    await deactivate();
    expect(clients[0].running).toBe(false);
  });
});

describe('trust', () => {
  it('is told to the server at the start', async () => {
    state.trusted = false;
    await started();
    expect(options(clients[0]).initializationOptions()).toEqual({ trusted: false });
  });

  it('is told when it is granted, and the settings are read again after it', async () => {
    state.trusted = false;
    await started();
    state.trusted = true;
    await state.grant.fire();
    expect(clients).toHaveLength(1);
    expect(notified(clients[0])).toEqual(['fxlens/trusted', 'workspace/didChangeConfiguration']);
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens' });
    expect(clients[0].sent.at(-1)[0]).toBe('workspace/didChangeConfiguration');
  });

  it('is told with the cursor to a server that the client starts in place of one that has crashed', async () => {
    state.trusted = false;
    await started();
    state.trusted = true;
    state.activeDocument = { uri: { scheme: 'file', toString: () => 'file:///net.py' }, languageId: 'python' };
    clients[0].sent.length = 0;
    clients[0].changed({ newState: 1 });
    clients[0].changed({ newState: 2 });
    expect(options(clients[0]).initializationOptions()).toEqual({ trusted: true });
    expect(clients[0].sent).toEqual([['fxlens/cursor', { uri: 'file:///net.py', line: 0 }], ['fxlens/status', {}]]);
    await vi.waitFor(() => expect(state.item.text).not.toContain('error'));
  });
});

describe('trust while the Python extension', () => {
  it.each([
    ['takes long to activate', () => new Promise(() => {})],
    ['cannot be activated', () => Promise.reject(new Error('no activation'))],
  ])('%s is told to the server', async (_, activated) => {
    state.trusted = false;
    await started();
    state.extensions['ms-python.python'] = { isActive: false, activate: activated };
    state.trusted = true;
    await state.grant.fire();
    expect(notified(clients[0])).toEqual(['fxlens/trusted', 'workspace/didChangeConfiguration']);
  });
});

describe('settings', () => {
  it('restart the server when its interpreter changes, and only then', async () => {
    await started();
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens' });
    expect(clients).toHaveLength(1);
    await state.configuration.fire({ affectsConfiguration: key => key === 'fxlens.serverPython' });
    expect(clients).toHaveLength(2);
    expect(clients.map(c => c.running)).toEqual([false, true]);
  });

  it('of shapes is toggled where it is set', async () => {
    await started();
    await state.commands.get('fxlens.toggleShapes')!();
    expect(state.updatedIn).toBe(ConfigurationTarget.Global);
    state.setInWorkspace['fxlens.shapes'] = true;
    await state.commands.get('fxlens.toggleShapes')!();
    expect(state.updatedIn).toBe(ConfigurationTarget.Workspace);
  });

  it('reach the server with the interpreter filled in, and without the server’s own', async () => {
    state.settings['fxlens.python'] = '/models/python';
    await started();
    const ask = options(clients[0]).middleware.workspace.configuration;
    const items = { items: [{ section: 'fxlens' }, { section: 'editor' }] };
    const answer = await ask(items, undefined, async () => [{ python: '', serverPython: '/x', deadline: 5 }, { tabSize: 4 }]);
    expect(answer).toEqual([{ python: '/models/python', pythonFrom: 'the setting fxlens.python', serverPython: '', deadline: 5 }, { tabSize: 4 }]);
  });

  it('start another server when the one before does not end', async () => {
    await started();
    clients[0].dispose = async () => { clients[0].running = false; throw new Error('Stopping the server timed out'); };
    await state.commands.get('fxlens.restart')!();
    expect(clients.map(c => c.running)).toEqual([false, true]);
  });

  it('leave one server when restarts come fast', async () => {
    await started();
    await Promise.all([state.commands.get('fxlens.restart')!(), state.commands.get('fxlens.restart')!()]);
    expect(clients.filter(c => c.running)).toHaveLength(1);
  });
});
