/** Watched classes, where the cursor is, and recorded runs. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

vi.mock('vscode-languageclient', async () => await vi.importActual<object>('vscode-languageserver-protocol'));

import { recordCommand, recordRun } from '../../src/host/recording';
import { sourceHere, sourceOf } from '../../src/host/code/addresses';
import { registerCursor } from '../../src/host/cursor';
import { entry, toggled, watch } from '../../src/host/watch';
import { ConfigurationTarget, state, tasks } from './vscode';

const source = { scheme: 'file', fsPath: '/w/models/net.py', toString: () => 'file:///w/models/net.py' };

function lens() {
  const sent: [string, any][] = [];
  const client = {
    isRunning: () => true,
    code2ProtocolConverter: { asUri: String },
    sendNotification: async (type: any, params: unknown) => void sent.push([type.method, params]),
    sendRequest: async (type: any, params: unknown) => void sent.push([type.method, params]),
  };
  return { client, sent, script: '/ext/serve.py', logger: { info() {}, warn() {} }, requireClient: async () => client } as any;
}

beforeEach(() => {
  state.reset();
  state.folders = [{ uri: { fsPath: '/w' } }];
});

describe('a watched class', () => {
  it('is named by its file in the folder', () => {
    expect(entry('/w/models/net.py', '/w', 'Net')).toBe('models/net.py::Net');
    expect(entry('/elsewhere/net.py', undefined, 'Net')).toBe('/elsewhere/net.py::Net');
  });

  it('is one no longer when it is watched again', () => {
    expect(toggled(['b::B'], 'a::A')).toEqual(['a::A', 'b::B']);
    expect(toggled(['a::A', 'b::B'], 'a::A')).toEqual(['b::B']);
  });

  it('is kept in the settings of its folder', async () => {
    await watch(lens(), 'file:///w/models/net.py', 'Net');
    expect(state.settings['fxlens.watch']).toEqual(['models/net.py::Net']);
    expect(state.updatedIn).toBe(ConfigurationTarget.WorkspaceFolder);
  });
});

describe('the cursor', () => {
  it('is sent when it rests, and only from sources', async () => {
    vi.useFakeTimers();
    try {
      const current = lens();
      const registered = registerCursor(current);
      const move = (line: number, scheme = 'file') =>
        state.selection.fire({ textEditor: { document: { languageId: 'python', uri: { ...source, scheme } }, selection: { active: { line } } } });
      await move(3);
      await move(7);
      await vi.advanceTimersByTimeAsync(1000);
      await move(1, 'git');
      await vi.advanceTimersByTimeAsync(1000);
      expect(current.sent).toEqual([['fxlens/cursor', { uri: expect.anything(), line: 7 }]]);
      registered.dispose();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('a notebook', () => {
  const uri = (scheme: string, path: string) => ({ scheme, fsPath: path, toString: () => `${scheme}:${path}` });
  const cell = (number: number, languageId: string, text: string) =>
    ({ document: { uri: uri('vscode-notebook-cell', `/w/a.ipynb#${number}`), languageId, getText: () => text } });
  const cells = [cell(0, 'markdown', '# Net'), cell(1, 'python', '# one\nclass Net:\n    pass'), cell(2, 'python', 'x = 1')];
  const notebook = (scheme = 'file') => ({ uri: uri(scheme, '/w/a.ipynb'), getCells: () => cells, cellCount: cells.length, cellAt: (at: number) => cells[at] });

  it('is the source of its cells of Python', () => {
    state.activeNotebook = notebook();
    expect(cells.map(({ document }) => sourceOf(document as any)?.fsPath)).toEqual([undefined, '/w/a.ipynb', '/w/a.ipynb']);
    expect(String(sourceHere())).toBe('file:/w/a.ipynb');
    state.activeNotebook = notebook('git');
    expect(sourceOf(cells[1].document as any)).toBeUndefined();
    expect(sourceHere()).toBeUndefined();
  });

  it('has the cursor in the class of the cell that is selected, where nobody types', async () => {
    vi.useFakeTimers();
    try {
      state.activeNotebook = notebook();
      const current = lens();
      const registered = registerCursor(current);
      for (const at of [1, 2, 0]) {
        state.selectedCell = at;
        await state.cellSelection.fire();
        await vi.advanceTimersByTimeAsync(1000);
      }
      expect(current.sent).toEqual([
        ['fxlens/cursor', { uri: 'vscode-notebook-cell:/w/a.ipynb#1', line: 1 }], ['fxlens/cursor', { uri: 'vscode-notebook-cell:/w/a.ipynb#2', line: 0 }],
      ]);
      registered.dispose();
    } finally {
      vi.useRealTimers();
    }
  });

  it('is saved, and its cells are recorded, where it is a file', async () => {
    const save = vi.fn();
    state.settings['fxlens.serverPython'] = '/server/python';
    state.activeNotebook = Object.assign(notebook('untitled'), { save });
    state.activeDocument = cells[1].document;
    const before = tasks.executed.length;
    await recordRun(lens());
    expect(tasks.executed.length).toBe(before);
    state.activeNotebook = Object.assign(notebook(), { save });
    await recordRun(lens());
    expect(save).toHaveBeenCalledTimes(1);
    expect(tasks.executed.at(-1)!.execution.args.at(-1)).toBe('/w/a.ipynb');
  });
});

describe('recording a run', () => {
  it('runs the active file, saved, and traces it again when it has ended', async () => {
    const save = vi.fn();
    state.settings['fxlens.serverPython'] = '/server/python';
    state.settings['fxlens.python'] = '/models/python';
    state.activeDocument = { languageId: 'python', uri: source };
    const { workspace } = await import('./vscode');
    workspace.openTextDocument.mockResolvedValueOnce({ save });
    const current = lens();
    await recordRun(current);
    expect(save).toHaveBeenCalled();
    const { execution } = tasks.executed.at(-1)!;
    expect([execution.process, ...execution.args]).toEqual(['/server/python', ...recordCommand('/ext/serve.py', '/models/python', '/w/models/net.py')]);
    expect(execution.args.slice(-3)).toEqual(['--', '/models/python', '/w/models/net.py']);
    expect(execution.options.cwd).toBe('/w');
    expect(current.sent).toEqual([]);
    await tasks.ended.fire({ execution: tasks.executed.at(-1) });
    expect(current.sent[0][0]).toBe('fxlens/trace');
  });
});
