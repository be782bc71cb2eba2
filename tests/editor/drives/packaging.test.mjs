// The .vsix alone: installed into a fresh profile, with an interpreter that has torch and nothing of ours.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { PYTHON, REPOSITORY, VSIX, standIn } from '../lab/vscode.mjs';
import { drive, plain, until } from '../lab/drive.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-bare-'));
const python = path.join(folder, 'bin', 'python');
const example = name => fs.readFileSync(path.join(REPOSITORY, 'examples', name), 'utf8');
const files = { 'wrap_me.py': example('broken/wrap_me.py') };

// The interactive window. VS Code has its notebooks; the Jupyter extension puts the cells there, and here a stand-in does.
const CELLS = ['import torch\nfrom torch import nn', 'class Net(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x', 'Net()(torch.randn(3, 8))'];
const OPENS_A_WINDOW = `
  const vscode = require('vscode');
  vscode.commands.registerCommand('lab.open', async () => {
    const controller = vscode.notebooks.createNotebookController('lab-python', 'interactive', 'Python');
    controller.supportedLanguages = ['python'];
    const { notebookUri } = await vscode.commands.executeCommand('interactive.open', { viewColumn: vscode.ViewColumn.Beside }, undefined, 'fxlens-lab.lab/lab-python', 'Interactive');
    const cells = ${JSON.stringify(CELLS)}.map(text => new vscode.NotebookCellData(vscode.NotebookCellKind.Code, text, 'python'));
    const edit = new vscode.WorkspaceEdit();
    edit.set(notebookUri, [vscode.NotebookEdit.insertCells(0, cells)]);
    await vscode.workspace.applyEdit(edit);
  });
  exports.activate = () => {};`;

/** A file of cells is a Python file, and the cells of the window are those of a notebook. */
async function interactive(bench) {
  await bench.openFile('cells.py');
  await bench.squiggle(8, 'x.sum() > 0');
  await bench.command('Open the Interactive Window');
  // The window shows the first line of each cell.
  await until('the finding in its cell', async () => {
    const found = (await bench.problems()).map(each => /FX\d+ \[.*\]/.exec(each)?.[0]).filter(Boolean).sort();
    assert.deepEqual(found, ['FX101 [Ln 3, Col 21]', 'FX101 [Ln 8, Col 21]']);
    return true;
  });
  await bench.screenshot('cells');
  assert.deepEqual(await bench.errors(), []);
}

describe('the extension as it is packaged', () => {
  before(() => execFileSync(PYTHON, [path.join(import.meta.dirname, '../lab/bare_venv.py'), folder]));
  after(() => fs.rmSync(folder, { recursive: true }));

  test('without the Python extension the .venv of the folder runs the models, and nothing is set', { timeout: 900_000 }, async () => {
    const prepare = ws => {
      execFileSync(PYTHON, [path.join(import.meta.dirname, '../lab/bare_venv.py'), ws.file('.venv')]);
    };
    const vscode = { settings: { 'fxlens.python': '', 'fxlens.serverPython': '' }, extensions: [VSIX] };
    await drive('no-python-extension', files, async (bench, ws, server) => {
      const installed = fs.readdirSync(path.join(server.root, 'extensions')).filter(name => name !== 'extensions.json');
      assert.deepEqual(installed.map(name => name.replace(/-\d.*/, '')), ['fxlens.fx-lens']);
      await bench.openFile('wrap_me.py');
      await bench.squiggle(9, 'logits.max() > 10.0');
      await bench.goTo(9, 14);
      await bench.offered(/torch\.fx\.wrap/); // which only a trace offers
      const worker = `"executable": "${ws.file('.venv/bin/python')}"`;
      const shown = async () => (await bench.page.locator('.editor-instance .view-lines').allInnerTexts()).some(text => plain(text).includes(worker));
      await bench.doUntil('the interpreter', () => bench.command('FX Lens: Show Debug Information'), shown);
      await bench.screenshot('debug-information');
    }, { vscode, prepare });
  });

  test('the interpreter of the Python extension is taken, which needs torch only, and the one that is chosen there later; so it is for cells of its window', { timeout: 900_000 }, async () => {
    const has = name => {
      try {
        execFileSync(python, ['-c', `import ${name}`], { cwd: os.tmpdir(), stdio: 'ignore' });
        return true;
      } catch {
        return false;
      }
    };
    assert.deepEqual(['torch', 'numpy', 'pygls', 'lsprotocol', 'fxlens', 'fxlib', 'rich'].filter(has), ['torch']);
    const other = path.join(folder, 'bin', 'other-python');
    const manifest = { name: 'python', publisher: 'ms-python', commands: [{ command: 'stand.choose', title: 'Choose the Other Interpreter' }] };
    const stand = standIn(manifest, `
      const vscode = require('vscode');
      const changed = new vscode.EventEmitter();
      let chosen = ${JSON.stringify(python)};
      vscode.commands.registerCommand('stand.choose', () => { chosen = ${JSON.stringify(other)}; changed.fire({}); });
      exports.activate = () => ({ environments: {
        getActiveEnvironmentPath: () => ({ path: 'chosen' }),
        resolveEnvironment: async () => ({ executable: { uri: vscode.Uri.file(chosen) } }),
        onDidChangeActiveEnvironmentPath: changed.event,
      } });`);
    fs.writeFileSync(other, `#!/bin/sh\ntouch "${other}.ran"\nexec "${python}" "$@"\n`, { mode: 0o755 });
    const lab = standIn({ name: 'lab', publisher: 'fxlens-lab', commands: [{ command: 'lab.open', title: 'Open the Interactive Window' }] }, OPENS_A_WINDOW);
    const vscode = { settings: { 'fxlens.python': '', 'fxlens.serverPython': python }, extensions: [VSIX, stand.vsix, lab.vsix] };
    try {
      await drive('python-extension', { ...files, 'cells.py': `# %%\n${CELLS.join('\n\n# %%\n')}\n` }, async bench => {
        await bench.openFile('wrap_me.py');
        await bench.squiggle(9, 'logits.max() > 10.0');
        await bench.goTo(9, 14);
        await bench.offered(/torch\.fx\.wrap/); // which only a trace offers
        await bench.page.keyboard.press('Escape');
        const worker = new RegExp(`"executable": "${python.replaceAll('/', '\\/')}"`);
        const shown = async () => (await bench.page.locator('.editor-instance .view-lines').allInnerTexts()).some(text => worker.test(plain(text)));
        await bench.doUntil('the interpreter', () => bench.command('FX Lens: Show Debug Information'), shown);
        await bench.screenshot('debug-information');
        await bench.doUntil('the other interpreter', () => bench.command('Choose the Other Interpreter'), async () => fs.existsSync(`${other}.ran`));
        await bench.openFile('wrap_me.py');
        await bench.goTo(9, 200);
        await bench.page.keyboard.type(' # traced with it');
        await bench.squiggle(9, 'logits.max() > 10.0');
        await bench.clear();
        await interactive(bench);
      }, { vscode });
    } finally {
      stand.remove();
      lab.remove();
    }
  });
});
