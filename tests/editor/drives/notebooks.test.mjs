// Notebooks: the classes in their cells, judged while nothing else of a cell is run.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const NET = `%%time
class Net(Base):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.linear(x)`;
const CELLS = [
  ['markdown', '# A study'],
  ['code', "import torch\nfrom torch import nn\n!rm -rf ran\nopen('ran.txt', 'w').write('ran')"],
  ['code', 'class Base(nn.Module):\n    def __init__(self, width=4):\n        super().__init__()\n        self.linear = nn.Linear(width, width)'],
  ['code', NET],
  ['code', 'Net(8)(torch.randn(3, 8))'],
];
const STEM = `# fxlens: Stem() <- torch.randn(1, 3, 32, 32)
class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))`;
const MADE = (name, line) => `class ${name}(nn.Module):\n    def forward(self, x):\n        ${line}\n        return x\n${name}()(randn(3, 8))`;
const TO_SAVE = [
  ['markdown', '# To save'], ['code', 'from torch import nn, randn'], ['code', MADE('One', 'x = x.view(*x.shape[:1], -1)')],
  ['code', MADE('Two', 'x = x + 1 if x.sum() > 0 else x')], ['code', MADE('Three', 'x = x.view(*x.shape[:1], -1)')],
];
const ON_SAVE = kind => ({ 'notebook.codeActionsOnSave': { [kind]: 'explicit' } });
const notebook = cells => JSON.stringify({
  nbformat: 4, nbformat_minor: 5, metadata: { language_info: { name: 'python' } },
  cells: cells.map(([kind, text], number) => ({
    id: `c${number}`, cell_type: kind, metadata: {}, source: text.split(/(?<=\n)/), ...(kind === 'code' ? { outputs: [], execution_count: null } : {}),
  })),
});

test('a notebook', { timeout: 900_000 }, async t => {
  await drive('notebooks', { 'study.ipynb': notebook(CELLS), 'stem.ipynb': notebook([CELLS[1], ['code', STEM], ['markdown', '# End']]) }, async (bench, ws) => {
    const { page } = bench;
    /** The cell that shows this text. */
    const cell = text => page.locator('.monaco-editor[data-uri^="vscode-notebook-cell:"]').filter({ hasText: text }).first();
    const row = (text, line) => cell(text).locator('.view-lines > .view-line').filter({ hasText: line }).first();
    const textOf = async text => plain(await cell(text).locator('.view-lines').innerText({ timeout: 3000 }));
    const problems = () => bench.problems().then(rows => rows.filter(each => /FX\d/.test(each)));

    await step(t, 'a finding stands in its cell, under its expression', async () => {
      await bench.openFile('study.ipynb');
      await cell('class Net').locator('.squiggly-error').first().waitFor({ timeout: 120_000 });
      assert.equal(await page.locator('.cdr.squiggly-error').count(), 1);
      const mark = await cell('class Net').locator('.squiggly-error').first().boundingBox();
      const line = await row('class Net', 'if x.sum()').boundingBox();
      assert.ok(Math.abs(mark.y + mark.height / 2 - line.y - line.height / 2) < line.height, JSON.stringify({ mark, line }));
      await bench.screenshot('finding');
    });

    await step(t, 'so do its lens, its shapes and its hover', async () => {
      await bench.lens('1 problem').waitFor();
      await bench.lens(/Net\(8\) · line 1 of cell 5/).waitFor();
      await until('the shapes', async () => /return self\.linear\(x\)\s*f32\[3, 8\]/.test(await textOf('class Net')));
      await row('class Net', 'return self.linear').locator('span').filter({ hasText: /linear/ }).last().hover();
      const hover = page.locator('.monaco-hover:not(.hidden)').filter({ hasText: /Linear\(in_features=8/ }).first();
      await hover.waitFor();
      await bench.screenshot('shapes');
      await page.mouse.move(0, 0);
      const [problem, ...others] = await problems();
      assert.match(problem, /FX101 \[Ln 4, Col 12\]/);
      assert.deepEqual(others, []);
    });

    await step(t, 'the graph is that of the class in the cell, and its nodes lead into the cell', async () => {
      await row('class Net', 'return self.linear').click();
      await bench.command('FX Lens: Show Graph');
      await until('the graph of Net', async () => (await bench.webview().locator('#file').innerText({ timeout: 3000 })) === 'study.ipynb'
        && (await bench.webview().locator('#targets').inputValue()) === 'Net');
      const node = bench.webview().locator('.node').filter({ hasText: 'linear' }).first();
      await bench.clickUntil('the expression to be selected', node, async () => (await cell('class Net').locator('.selected-text').count()) > 0);
      await bench.screenshot('graph');
    });

    await step(t, 'a fix edits the cell', async () => {
      await row('class Net', 'if x.sum()').click();
      await bench.offered(/Replace the `if` with torch\.where/);
      await bench.screenshot('lightbulb');
      await bench.choose(/Replace the `if` with torch\.where/);
      await until('the edited cell', async () => /x = torch\.where\(x\.sum\(\) > 0, x \+ 1, x\)/.test(await textOf('class Net')));
      await until('no problem', async () => (await problems()).length === 0);
      await bench.lens('7 nodes').waitFor();
      await bench.screenshot('fixed');
    });

    await step(t, 'a cell that is deleted takes its problems with it', async () => {
      await row('Net(8)(', 'Net(8)').click();
      await page.keyboard.press('Control+A');
      await page.keyboard.type('class Last(nn.Module):\n    def forward(self, x):\nif x > 0:\nreturn x');
      await bench.problem(/FX308|FX1/);
      await page.keyboard.press('Escape');
      await page.keyboard.press('Delete');
      await until('no problem', async () => (await problems()).length === 0);
      await bench.screenshot('deleted');
    });

    await step(t, 'where nobody types, commands take the class of the selected cell, and views lead into it', async () => {
      await bench.openFile('stem.ipynb');
      await bench.lens('5 nodes').waitFor();
      await row('class Stem', 'def forward').click();
      await page.keyboard.press('Escape');
      await bench.command('FX Lens: Show Generated Forward');
      await page.locator('.tab').filter({ hasText: 'Stem.forward.py' }).waitFor();
      const generated = page.locator('.editor-group-container').last().locator('.view-line').filter({ hasText: 'self.conv(' }).first();
      await bench.clickUntil('the expression to be selected', generated, async () => (await cell('class Stem').locator('.selected-text').count()) > 0);
      await bench.screenshot('forward');
    });

    await step(t, 'a pass writes its function below the class, in the same cell', async () => {
      await bench.tab('stem.ipynb');
      await bench.command('FX Lens: Fuse Convolutions and Batch Norms');
      await bench.dismiss('Stem: 5 nodes before, 4 after.');
      const button = page.locator('.editor-group-container.active .editor-actions').getByRole('button', { name: /^Insert a Function/ });
      await until('the button', async () => { await button.first().click({ timeout: 5000 }); return true; });
      await until('the function', async () => /return torch\.relu\(self\.bn\(self\.conv\(x\)\)\)[^]*def fused_stem\(\):/.test(await textOf('class Stem')));
      await bench.screenshot('inserted');
    });

    await step(t, 'rows of an estimate lead into the cell, and the cursor in it marks them', async () => {
      await bench.tab('stem.ipynb');
      await bench.command('FX Lens: Estimate on Device');
      await page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'No device' }).first().click();
      const sheet = bench.webview();
      await until('the estimate', async () => (await sheet.locator('#title').innerText({ timeout: 5000 })) === 'Cost of Stem', 300_000);
      const node = sheet.locator('tr.link > td:first-child').getByText('bn', { exact: true });
      await row('class Stem', 'def forward').click();
      await bench.clickUntil('the expression to be selected', node, async () => (await cell('class Stem').locator('.selected-text').count()) > 0);
      await row('class Stem', 'return torch.relu').click();
      await until('the rows of the line', async () => (await sheet.locator('tr.selected > td:first-child').allInnerTexts()).includes('relu'));
      await bench.screenshot('estimated');
    });

    await step(t, 'the table of models has those of notebooks, and opens their cells', async () => {
      await bench.command('FX Lens: Models of This Workspace');
      const view = bench.webview();
      await view.getByText('The files are checked as they are saved.').waitFor({ timeout: 300_000 });
      assert.match(plain(await view.locator('tbody').innerText()), /Net[^]*study\.ipynb:cell 4:2/);
      await view.getByRole('button', { name: 'Stem', exact: true }).click();
      await page.locator('.editor-group-container.active .tab.active').filter({ hasText: 'stem.ipynb' }).waitFor();
      await page.locator('.statusbar-item').filter({ hasText: 'Cell 2 of 3' }).waitFor();
      await bench.screenshot('models');
    });

    await step(t, 'a notebook that was never saved is judged too', async () => {
      await bench.command('Create: New Jupyter Notebook');
      await bench.activeTab(/Untitled-1\.ipynb/).waitFor();
      await page.locator('.monaco-editor[data-uri^="vscode-notebook-cell:Untitled"]').first().click();
      for (const line of ['import torch', '# fxlens: New() <- torch.randn(2)', 'class New(torch.nn.Module):', '    def forward(self, x):', '        return x if x.sum() > 0 else -x']) {
        await page.keyboard.type(line);
        await page.keyboard.press('Enter');
      }
      await until('the finding', () => cell('class New').locator('.squiggly-error').count());
      await bench.lens('1 problem').waitFor();
      await bench.screenshot('unsaved');
    });

    await step(t, 'nothing of a cell was run but what defines something', async () => {
      assert.ok(!fs.existsSync(ws.file('ran.txt')));
      assert.deepEqual(await bench.errors(), []);
    });
  });
});

test('saving a notebook', { timeout: 900_000 }, async t => {
  await drive('saving', { 'save.ipynb': notebook(TO_SAVE) }, async (bench, ws) => {
    const saved = () => JSON.parse(fs.readFileSync(ws.file('save.ipynb'), 'utf8')).cells.map(each => [].concat(each.source).join(''));
    const edited = bench.page.locator('.monaco-editor[data-uri^="vscode-notebook-cell:"]').filter({ hasText: 'import' }).first();
    /** Until it is as it should be: VS Code gives up its question where an extension registers itself meanwhile. */
    const editAndSave = (what, holds) => bench.doUntil(what, async () => {
      await edited.click();
      await bench.page.keyboard.press('Control+End');
      await bench.page.keyboard.type('#');
      await bench.page.keyboard.press('Control+S');
    }, () => holds() ?? true);

    await step(t, 'each cell is fixed by itself', async () => {
      await bench.openFile('save.ipynb');
      await until('the findings', async () => (await bench.problems()).filter(each => /FX1/.test(each)).length === 3);
      const bySelf = TO_SAVE.map(([, text]) => text.replace('*x.shape[:1], -1', 'x.shape[:1] + (-1,)'));
      await editAndSave('two cells fixed', () => assert.deepEqual(saved().map(text => text.replace(/#+$/, '')), bySelf));
      await bench.screenshot('by-cell');
    });

    await step(t, 'or the whole notebook, where a fix needs an import of another cell', async () => {
      ws.write({ '.vscode/settings.json': JSON.stringify(ON_SAVE('notebook.source.fixAll.fxlens')) });
      const whole = /import torch\.fx\nfrom torch import nn, randn[^]*torch\.fx\.wrap\(["']_two_x["']\)/;
      await editAndSave('the notebook fixed', () => assert.match(saved().join('\n'), whole));
      await until('no problem', async () => (await bench.problems()).length === 0);
      await bench.screenshot('whole');
      assert.deepEqual(await bench.errors(), []);
    });
  }, { settings: ON_SAVE('source.fixAll') });
});
