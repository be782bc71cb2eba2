/** What the status item says. */
import { beforeEach, describe, expect, it } from 'vitest';
import { StatusItem, appearance } from '../../src/host/status';
import type { StatusParams } from '../../src/protocol/lsp';
import { state } from './vscode';

const ready: StatusParams = { state: 'ready', python: '/env/bin/python', torch: '2.13.0', message: null };

beforeEach(() => state.reset());

describe('its text', () => {
  it.each([
    ['ready', 0, '$(type-hierarchy) FX Lens'],
    ['ready', 3, '$(type-hierarchy) FX Lens 3'],
    ['busy', 2, '$(loading~spin) FX Lens 2'],
    ['starting', 0, '$(loading~spin) FX Lens'],
    ['untrusted', 1, '$(shield) FX Lens 1'],
    ['error', 0, '$(error) FX Lens'],
  ] as const)('%s with %i problems is «%s»', (name, problems, text) => {
    expect(appearance({ ...ready, state: name }, problems).text).toBe(text);
  });

  it('says how many classes were not judged, also without a problem', () => {
    expect(appearance(ready, 0, 5).text).toBe('$(type-hierarchy) FX Lens · 5 classes not judged');
    expect(appearance(ready, 2, 1).text).toBe('$(type-hierarchy) FX Lens 2 · 1 class not judged');
  });

  it('is explained by a tooltip that names torch, the interpreter and the problems', () => {
    const { tooltip } = appearance({ ...ready, message: 'tracing', coverage: '3 of 4 classes judged' }, 1);
    for (const part of ['3 of 4 classes judged', 'torch 2.13.0', '/env/bin/python', '1 problem in this file', 'tracing']) expect(tooltip).toContain(part);
  });

  it('has the verdicts of the class at the cursor', () => {
    const verdicts = { model: 'Net', short: 'fx ✗ 1 · export ✓ · compile 1 break', full: 'fx ✗ 1 · export ✓ · compile 1 break · dimension 0 of x fixed at line 14' };
    const shown = appearance({ ...ready, verdicts }, 1);
    expect(shown.text).toBe('$(type-hierarchy) FX Lens 1 · fx ✗ 1 · export ✓ · compile 1 break');
    expect(shown.tooltip).toContain('Net: fx ✗ 1 · export ✓ · compile 1 break · dimension 0 of x fixed at line 14');
  });

  it('stands out only for an error', () => {
    expect(appearance(ready, 5).severity).toBe('none');
    expect(appearance({ ...ready, state: 'error' }, 0).severity).toBe('error');
  });
});

describe('the item', () => {
  it('is there for a Python file and counts our errors and warnings only', () => {
    state.activeDocument = { languageId: 'python', uri: {} };
    state.diagnostics = [
      { source: 'fxlens', severity: 0 }, { source: 'fxlens', severity: 1 }, { source: 'fxlens', severity: 3 }, { source: 'pylint', severity: 0 },
    ];
    new StatusItem().set(ready);
    expect(state.item.text).toBe('$(type-hierarchy) FX Lens 2');
    expect(state.item.show).toHaveBeenCalled();
  });

  it('is away for another file, unless there is an error to tell', () => {
    state.activeDocument = { languageId: 'json', uri: {} };
    const item = new StatusItem();
    state.item.show.mockClear();
    item.set(ready);
    expect(state.item.show).not.toHaveBeenCalled();
    item.set({ ...ready, state: 'error' });
    expect(state.item.show).toHaveBeenCalled();
  });
});
