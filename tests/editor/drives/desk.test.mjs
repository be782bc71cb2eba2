// What lies around the problems: inputs, marks of what a trace took for granted, a partial graph, the panel's files, restart, help.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const NET = `import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 8)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        if self.training:
            x = self.linear(x)
        else:
            x = x * 2
        return torch.relu(x).tanh()
`;
const PARTIAL = `import torch
from torch import nn


# fxlens: Gate() <- torch.randn(2, 8)
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        if x.sum() > 0:
            x = torch.relu(x)
        return x
`;
const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;

test('the rest of the desk', { timeout: 900_000 }, async t => {
  await drive('desk', { 'net.py': NET, 'gate.py': PARTIAL }, async (bench, ws) => {
    const { page } = bench;
    const hint = text => page.locator('.view-line span').filter({ hasText: text });

    await step(t, 'what the trace took for granted is marked: the branch that is not in the graph, and the value that decided', async () => {
      await bench.openFile('net.py');
      await hint(/^.?=.True$/).first().waitFor();
      await page.locator('.editor-instance .view-lines [class*=unnecessary], .editor-instance .cdr[class*=unnecessary]').first().waitFor({ state: 'attached' });
      await bench.screenshot('taken-for-granted');
    });

    await step(t, 'the lens of the inputs edits them in the comment', async () => {
      const input = page.locator('.quick-input-widget').filter({ visible: true }).locator('input').first();
      await until('the inputs to be taken', async () => {
        await bench.clickUntil('the inputs', bench.lens(/x:.f32\[2,.8\]/), async () => /Net\(\) <- torch\.randn\(2, 8\)/.test(await input.inputValue({ timeout: 5000 })));
        await bench.screenshot('inputs');
        await input.fill('Net() <- torch.randn(5, 8)', { timeout: 5000 });
        await input.press('Enter', { timeout: 5000 });
        return true;
      });
      await bench.waitForText(/# fxlens: Net\(\) <- torch\.randn\(5, 8\)/);
      await hint(/f32\[5,.8\]/).first().waitFor();
    });

    await step(t, 'a generated line moves the selection of the source', async () => {
      await bench.clickForTab(bench.lens('Code'), 'Net.forward.py');
      const generated = page.locator('.editor-instance .view-line').filter({ hasText: /tanh.=.relu\.tanh/ });
      const expression = 'torch.relu(x).tanh()';
      await bench.clickUntil('the selected expression', generated.first(), async () => (await page.locator('.editor-instance .selected-text').count()) > 0);
      await bench.tab(/^net\.py/);
      await until('its place', async () => (await bench.position())
        .includes(`Ln ${lineOf(NET, expression)}, Col ${NET.split('\n')[lineOf(NET, expression) - 1].length + 1} (${expression.length} selected)`));
      await bench.screenshot('from-generated');
    });

    await step(t, 'a model that torch.fx refuses has the graph up to there, with the reason', async () => {
      await bench.openFile('gate.py');
      await bench.problem(/FX101/);
      await bench.command('FX Lens: Show Graph');
      await until('the reason', async () => /torch\.fx cannot capture this model/.test(await bench.webview().locator('#partial').innerText()));
      await bench.webview().locator('g.node.problem').first().waitFor();
      await bench.screenshot('partial');
    });

    await step(t, 'a pinned graph stays, and is exported to a file', async () => {
      const pin = bench.webview().locator('#pin');
      await bench.clickUntil('the pin', pin, async () => (await pin.getAttribute('aria-pressed')) === 'true');
      await bench.tab(/^net\.py/);
      await bench.lens(/x:.f32\[5,.8\]/).waitFor();
      assert.equal(await bench.webview().locator('#file').innerText(), 'gate.py');
      const svg = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'SVG' }).filter({ visible: true });
      await bench.clickUntil('the kinds of files', bench.webview().locator('#export'), async () => (await svg.count()) > 0);
      await page.keyboard.press('Enter');
      await bench.acceptPath('OK', 'Gate.svg');
      await until('the file', () => fs.existsSync(ws.file('Gate.svg')) && /^<svg/.test(fs.readFileSync(ws.file('Gate.svg'), 'utf8')));
      await bench.clickUntil('the graph of the file in front', pin, async () => (await bench.webview().locator('#file').innerText({ timeout: 3000 })) === 'net.py');
    });

    await step(t, 'the status item tells the torch, and its menu restarts the server', async () => {
      await bench.tab(/^net\.py/);
      await bench.clickUntil('the torch', page.locator('.statusbar-item').filter({ hasText: 'FX Lens' }), async () =>
        /torch \d/.test((await page.locator('.quick-input-widget').filter({ visible: true }).locator('input').first().getAttribute('placeholder', { timeout: 5000 })) ?? ''));
      await bench.screenshot('menu');
      await page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'Restart server' }).first().click();
      await page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
      await bench.goTo(lineOf(NET, 'return torch.relu'), 200);
      await page.keyboard.type('.exp()');
      await bench.tab('Net.forward.py');
      await until('a trace of the new server', async () => (await page.locator('.view-line').filter({ hasText: /exp.=.tanh\.exp/ }).count()) > 0);
    });

    await step(t, 'the logs and the walkthrough open', async () => {
      await bench.command('FX Lens: Show Logs');
      await page.locator('.part.panel .output-view, .part.panel .output').first().waitFor();
      await bench.command('Welcome: Open Walkthrough');
      await page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'FX Lens' }).first().click();
      await until('the steps', async () => /Choose the interpreter that has your torch[\s\S]*Look at the graph and the code/.test(
        plain(await page.locator('.gettingStartedContainer').first().innerText())));
      await bench.screenshot('walkthrough');
    });
    assert.deepEqual(await bench.errors(), []);
  });
});
