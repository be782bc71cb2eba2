// Reading a model beside its source: views with hover and go-to both ways, shapes by name, and library files that a model runs through.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const NET = `import sys
import torch

sys.path.append(__file__.replace("net.py", "lib/site-packages"))
from parts import Block


# fxlens: Net() <- torch.randn(4, 16)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(16, 32)
        self.second = Block(32, 8)

    def forward(self, x):
        x = self.first(x)
        return self.second(x).softmax(-1)
`;
const PARTS = `import torch


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))
`;
const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;

test('a model is read in its views, and in the files that it runs through', { timeout: 900_000 }, async t => {
  const files = { 'net.py': NET, 'lib/site-packages/parts.py': PARTS };
  await drive('reading', files, async (bench, ws) => {
    const { page } = bench;
    const hint = text => page.locator('.view-line span').filter({ hasText: text });
    const position = pattern => until(`the cursor at ${pattern}`, async () => pattern.test(await bench.position()));
    /** Follows a way from the cursor into the file of this tab. */
    const follow = (way, tab) => bench.doUntil(way, () => bench.command(way), async () =>
      (await bench.activeTab(tab).count()) > 0);

    await step(t, 'the graph is read as text, with types, modules and lines', async () => {
      await bench.openFile('net.py');
      await hint(/f32\[4,.8\]/).first().waitFor();
      await bench.command('FX Lens: Show Graph as Text');
      await page.locator('.tab').filter({ hasText: 'Net.graph.txt' }).waitFor();
      await until('the text', async () => /first_linear: f32\[4, 32\] = call_module\[first\.linear\]\(x\)\s+# first\.linear: Linear, parts\.py:10/.test(
        plain(await page.locator('.editor-instance').filter({ hasText: 'call_module' }).locator('.view-lines').innerText())));
      await bench.screenshot('graph-text');
    });

    await step(t, 'the generated forward has hover and shapes', async () => {
      await bench.tab(/^net\.py/);
      await bench.clickForTab(bench.lens('Code'), 'Net.forward.py');
      await bench.tab('Net.forward.py');
      await hint(/f32\[4,.32\]/).first().waitFor();
      await bench.screenshot('forward');
      const told = await bench.hover(4, 'second_linear', 'call_module');
      assert.match(told, /f32\[4, 32\] → f32\[4, 8\]/);
      await page.keyboard.press('Escape');
    });

    await step(t, 'go to definition leads from a generated line to the source', async () => {
      await bench.tab('Net.forward.py');
      await bench.goTo(6, 6);
      await follow('Go to Definition', /^net\.py/);
      await position(new RegExp(`Ln ${lineOf(NET, 'softmax')},`));
    });

    await step(t, 'go to implementation leads back', async () => {
      await bench.goTo(lineOf(NET, 'softmax'), NET.split('\n')[lineOf(NET, 'softmax') - 1].indexOf('softmax') + 3);
      await follow('Go to Implementations', 'Net.forward.py'); // its key is another command's in a browser
      await position(/Ln 6,/);
      await bench.screenshot('implementation');
    });

    await step(t, 'a generated line of a library leads into it, and its lines say whose call they show', async () => {
      await bench.goTo(2, 6);
      await follow('Go to Definition', /^parts\.py/);
      await hint(/f32\[4,.32\].….f32\[4,.8\].·.Net/).first().waitFor();
      const told = await bench.hover(10, 'relu', 'Called by');
      assert.match(told, /Called by Net of net\.py: line 16 self\.first\(x\), line 17 self\.second\(x\)/);
      await bench.screenshot('library');
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('.codelens-decoration').filter({ visible: true, hasText: 'problem' }).count(), 0);
    });

    await step(t, 'a setting names the batch', async () => {
      await bench.tab(/^net\.py/);
      await bench.doUntil('the name', () => fs.writeFileSync(ws.file('.vscode/settings.json'), JSON.stringify({ 'fxlens.batch': 'N' })),
        async () => (await hint(/f32\[N,.8\]/).count()) > 0);
      await bench.screenshot('batch');
    });

    await step(t, 'an edit is followed by every view', async () => {
      await bench.tab(/^net\.py/);
      await bench.goTo(lineOf(NET, 'softmax'), NET.split('\n')[lineOf(NET, 'softmax') - 1].length + 1);
      await page.keyboard.type('.exp()');
      await bench.tab('Net.forward.py');
      await until('the edit in the forward', async () =>
        /exp = softmax\.exp\(\)/.test(plain(await page.locator('.editor-instance').filter({ hasText: 'def forward', visible: true }).last().locator('.view-lines').innerText())));
      assert.equal(fs.readFileSync(ws.file('net.py'), 'utf8'), NET, 'nothing was saved');
    });

    await step(t, 'the page of a rule opens', async () => {
      await bench.tab(/^net\.py/);
      await bench.goTo(lineOf(NET, 'x = self.first'), 200);
      await page.keyboard.type('\n        x = x * len(x)');
      await bench.problem(/FX120/);
      await bench.goTo(lineOf(NET, 'x = self.first') + 1, 18);
      await bench.command('FX Lens: Open Rule Page');
      await page.locator('.tab').filter({ hasText: /FX120/ }).waitFor();
      await bench.screenshot('rule');
    });
  });
});
