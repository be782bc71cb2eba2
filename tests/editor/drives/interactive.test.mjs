// VS Code's interactive window, with cells as the Jupyter extension puts them there; this VS Code has no Jupyter extension.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VSIX, standIn } from '../lab/vscode.mjs';
import { drive, step, until } from '../lab/drive.mjs';

const CELLS = ['import torch\nfrom torch import nn', 'class Net(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x', 'Net()(torch.randn(3, 8))'];
const COMMANDS = [{ command: 'lab.open', title: 'Open the Interactive Window' }];
const MAIN = `
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

test('the interactive window', { timeout: 900_000 }, async t => {
  const stand = standIn({ name: 'lab', publisher: 'fxlens-lab', commands: COMMANDS }, MAIN);
  try {
    await drive('interactive', { 'cells.py': `# %%\n${CELLS.join('\n\n# %%\n')}\n` }, async bench => {
      await step(t, 'a file of cells is a Python file', async () => {
        await bench.openFile('cells.py');
        await bench.squiggle(8, 'x.sum() > 0');
      });

      await step(t, 'the cells of the window are those of a notebook', async () => {
        await bench.command('Open the Interactive Window');
        // The window shows the first line of each cell.
        await until('the finding in its cell', async () => {
          const found = (await bench.problems()).map(each => /FX\d+ \[.*\]/.exec(each)?.[0]).filter(Boolean).sort();
          assert.deepEqual(found, ['FX101 [Ln 3, Col 21]', 'FX101 [Ln 8, Col 21]']);
          return true;
        });
        await bench.screenshot('cells');
        assert.deepEqual(await bench.errors(), []);
      });
    }, { vscode: { extensions: [VSIX, stand.vsix] } });
  } finally {
    stand.remove();
  }
});
