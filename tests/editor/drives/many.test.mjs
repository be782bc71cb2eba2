// A folder of many models, all of them open: hover answers while they are traced. Then the views, passes and settings that
// no other drive has, on one of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const COUNT = 25;
const name = number => `M${String(number).padStart(2, '0')}`;
const model = number => `import torch
from torch import nn


# fxlens: ${name(number)}() <- torch.randn(2, 16, 8)
class ${name(number)}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(${number + 2})])

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.layers(x)
`;
const FIRST = `import torch
from torch import nn


# fxlens: First() <- torch.randn(2, 16, 8)
class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        unused = torch.tanh(x)
        return self.linear(x)
`;
const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;
const files = { 'first.py': FIRST };
for (let number = 1; number < COUNT; number++) files[`${name(number).toLowerCase()}.py`] = model(number);

test('a folder of many models', { timeout: 900_000 }, async t => {
  const settings = { 'editor.hover.delay': 0 };
  await drive('many', files, async (bench, ws) => {
    const { page } = bench;
    const hint = text => page.locator('.view-line span').filter({ hasText: text });
    const front = () => page.locator('.editor-group-container.active');
    /** Changes the settings of the folder until that shows; VS Code can miss the first change of a file. */
    const setting = (values, what, probe) =>
      bench.doUntil(what, () => fs.writeFileSync(ws.file('.vscode/settings.json'), JSON.stringify(values)), probe);

    await step(t, 'hover answers while all are traced', async () => {
      await bench.openFile('first.py');
      await hint(/f32\[2,.16,.8\]/).first().waitFor();
      const errors = async () => Number.parseInt(await page.locator('[id="status.problems"]').innerText({ timeout: 5000 }), 10);
      const row = page.locator('.explorer-folders-view .monaco-list-row').filter({ hasText: 'first.py' });
      await bench.doUntil('all beside the first', async () => {
        await row.click();
        await page.keyboard.press('Control+A');
        await page.keyboard.press('Control+Enter');
      }, async () => (await page.locator('.editor-group-container').count()) === 2);
      const told = [];
      const ask = async () => {
        const done = await errors();
        const before = Date.now();
        assert.match(await bench.hover(lineOf(FIRST, 'self.linear(x)'), 'linear', 'call_module'), /f32\[2, 16, 8\] → f32\[2, 16, 8\]/);
        told.push(`${Date.now() - before} ms with ${done} judged`);
        await until('no hover', async () => {
          await page.mouse.move(700, 700);
          return (await page.locator('.monaco-hover:not(.hidden)').count()) === 0;
        });
      };
      // A text is read when its tab is in front for the first time.
      const seen = new Set();
      await until('every file in front once', async () => {
        const [, shown] = /class (M\d\d|First)/.exec(plain(await front().locator('.view-lines').innerText({ timeout: 5000 }))) ?? [];
        if (!shown) return false;
        const known = seen.size;
        seen.add(shown);
        if (seen.size === COUNT) return true;
        if (seen.size > known && seen.size % 12 === 0) await ask();
        await page.keyboard.press('Control+PageDown');
        return false;
      }, 300_000);
      await ask();
      await bench.screenshot('all-open');
      await until('a finding in each but the first', async () => (await errors()) === COUNT - 1);
      console.log(`      hover in sight after ${told.join(', ')}`);
      await bench.command('View: Close All Editors');
      await until('nothing open', async () => (await page.locator('.tab').count()) === 0 && (await errors()) === 0);
    });

    await step(t, 'the class tells its totals, the palette its table and its graph in an editor', async () => {
      await bench.openFile('first.py');
      await hint(/f32\[2,.16,.8\]/).first().waitFor();
      assert.match(await bench.hover(lineOf(FIRST, 'class First'), 'First', 'nodes'), /4 nodes/);
      await page.keyboard.press('Escape');
      await bench.command('FX Lens: Show Table of Nodes');
      await until('the table', async () =>
        /call_function\s+tanh[\s\S]*call_module\s+linear/.test(plain(await page.locator('.editor-instance').filter({ hasText: 'placeholder' }).first().locator('.view-lines').innerText({ timeout: 5000 }))));
      await bench.screenshot('table');
      await bench.tab(/^first\.py/);
      await bench.command('FX Lens: Show Graph in an Editor');
      await bench.webview().locator('g.node').first().waitFor();
      const graph = bench.webview();
      await graph.locator('#run').click();
      await until('the values of a run', async () => (await graph.locator('#legend').innerText({ timeout: 5000 })).includes('all values are finite'));
      await graph.locator('[id="n:linear"]').click();
      assert.match(await graph.locator('#details').innerText(), /values\s+\S+ … \S+, mean/);
      await bench.screenshot('graph-in-an-editor');
    });

    await step(t, 'what nothing uses is removed by a pass', async () => {
      await bench.tab(/^first\.py/);
      await bench.command('FX Lens: Preview Passes');
      await bench.tick(['Remove dead code']);
      await page.locator('.quick-input-widget').getByRole('button', { name: 'OK' }).click();
      assert.match(await bench.told('First: 4 nodes before, 3 after.'), /The results are identical/);
      // In a narrow editor what went is between the lines of what is left.
      const after = async () => plain(await page.locator('.editor.modified .view-lines:not(.line-delete)').innerText({ timeout: 5000 }));
      await until('the diff', async () => /self\.linear/.test(await after()));
      assert.doesNotMatch(await after(), /tanh/);
      await bench.screenshot('dead-code');
      await bench.dismiss('4 nodes before');
      await bench.command('View: Close All Editors');
    });

    await step(t, 'settings choose the length of shapes, and which rules speak and how loudly', async () => {
      await bench.openFile('m01.py');
      await bench.squiggle(12, 'x.sum() > 0');
      await setting({ 'fxlens.shapesLength': 8 }, 'short shapes', async () => (await hint(/^.?f32\[….{3}$/).count()) > 0);
      await bench.screenshot('short');
      await setting({ 'fxlens.severity': { FX101: 'warning' } }, 'a warning', async () => (await bench.squiggles('warning')).some(each => each.line === 12));
      await setting({ 'fxlens.ignore': ['FX101'] }, 'nothing', async () => (await bench.squiggles('error')).length + (await bench.squiggles('warning')).length === 0);
      await setting({ 'fxlens.ignore': ['FX101'], 'fxlens.select': ['FX1'] }, 'still shapes', async () => (await hint(/f32\[2,.16,.8\]/).count()) > 0);
      await setting({ 'fxlens.enable': false }, 'no shapes', async () => (await hint(/f32\[/).count()) === 0);
    });

    await step(t, 'settings choose when a file is traced: when it is saved, or by a command', async () => {
      await setting({ 'fxlens.run': 'onSave' }, 'a trace', async () => (await bench.squiggles()).some(each => each.line === 12));
      await bench.goTo(12, 200);
      await page.keyboard.type('\n            x = x * len(x)');
      assert.ok(!(await bench.squiggles()).some(each => each.line === 13));
      await bench.save();
      await bench.squiggle(13, 'len(x)');
      await setting({ 'fxlens.run': 'manual' }, 'a trace', async () => (await bench.squiggles()).some(each => each.line === 13));
      await bench.goTo(13, 200);
      await page.keyboard.type(' * len(x)');
      await bench.command('FX Lens: Trace This File Now');
      await until('both', async () => (await bench.squiggles()).filter(each => each.line === 13).length === 2);
      await bench.screenshot('traced-by-command');
    });
    assert.deepEqual(await bench.errors(), []);
  }, { settings });
});
