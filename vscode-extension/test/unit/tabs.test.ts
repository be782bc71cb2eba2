/** The tabs of results and of all models, with a stand-in for their pages. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

vi.mock('../../src/host/pages', () => ({ showPage: () => {} }));
// The real one needs VS Code.
vi.mock('vscode-languageclient', async () => ({ ...(await vi.importActual<object>('vscode-languageserver-protocol')) }));

import { NOT_RUNNING } from '../../src/host/lacks';
import { JobTabs } from '../../src/host/lowering/panel';
import { registerModels } from '../../src/host/models/panel';
import { TextEditorSelectionChangeKind, state, window } from './vscode';

const NET = 'file:///net.py';
const range = (line: number, from = 0, to = from, end = line) => ({ start: { line, character: from }, end: { line: end, character: to } });
const select = (line: number) => state.selection.fire({
  textEditor: { document: { uri: NET, languageId: 'python' }, selections: [range(line)] }, kind: TextEditorSelectionChangeKind.Mouse,
});
const edit = (at: ReturnType<typeof range>, text: string, uri = NET) => state.edit.fire({ document: { uri }, contentChanges: [{ range: at, text }] });

beforeEach(() => {
  state.reset();
  window.visibleTextEditors.length = 0;
});

describe('rows of a result', () => {
  const lens: any = { selections: { by: () => undefined }, onDidSelectNodes: () => ({ dispose() {} }) };
  const answered: any = { result: {}, trace: 1, places: { conv: [{ uri: NET, range: range(2, 8, 20) }] } };
  /** Runs a job, and edits the source meanwhile. */
  const shown = async (meanwhile: () => unknown) => {
    lens.requireClient = async () => ({ code2ProtocolConverter: { asUri: String }, onProgress: () => ({ dispose() {} }) });
    const send = async () => { await meanwhile(); return answered; };
    await new JobTabs(lens, 'ext' as any).run({ title: 'Lower', source: NET as any, target: 'Net', options: {}, send, sheet: () => ({}) as any });
    await state.say({ type: 'ready' });
  };
  const rowsAt = async (line: number) => {
    await select(line);
    return state.posted.at(-1).names;
  };

  it('stay at their code while the source is edited, during the run and after it', async () => {
    await shown(() => edit(range(0), 'import torch\n'));
    expect([await rowsAt(2), await rowsAt(3)]).toEqual([[], ['conv']]);
    await edit(range(1, 0, 0, 2), '');
    await edit(range(0), 'elsewhere\n\n', 'file:///other.py');
    expect([await rowsAt(2), await rowsAt(3)]).toEqual([['conv'], []]);
  });

  it('move within a line, grow with what is written inside, and are gone with their code', async () => {
    await shown(() => edit(range(2, 8), 'y = '));
    await edit(range(2, 14), 'a\nb'); // in the middle: it now ends in the next line
    expect([await rowsAt(2), await rowsAt(3)]).toEqual([['conv'], ['conv']]);
    await edit(range(2, 0, 0, 4), '');
    expect(await rowsAt(2)).toEqual([]);
  });
});

describe('the table of all models', () => {
  it('says that no server runs, and can be tried again', async () => {
    const lens: any = { settled: async () => undefined, requireClient: async () => undefined };
    registerModels({ extensionUri: 'ext' } as any, lens);
    state.commands.get('fxlens.showModels')!();
    await state.say({ type: 'ready' });
    expect(state.posted.at(-1)).toEqual({ type: 'failed', reason: NOT_RUNNING });
  });
});
