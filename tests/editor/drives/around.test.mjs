// What lies around a model: the models that a class is part of, the class under the cursor, files of cells, notebooks, interpreters.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { PYTHON } from '../lab/vscode.mjs';
import { drive, ofAnIdleMachine, plain, step, until } from '../lab/drive.mjs';

const BLOCKS = `import torch
from torch import nn


class Up(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wide = nn.Linear(size, 2 * size)

    def forward(self, x):
        return torch.relu(self.wide(x))


class Unused(nn.Module):
    def __init__(self, spec):
        raise RuntimeError('not yet')

    def forward(self, x):
        return x
`;
const NET = `import torch
from torch import nn
from blocks import Up


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up1 = Up(4)
        self.up2 = Up(8)

    def forward(self, x):
        return self.up2(self.up1(x))
`;
const CELLS = `# %%
import torch
from torch import nn
%load_ext autoreload
!ls

# %%
# fxlens: Cell() <- torch.randn(2, 4)
class Cell(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return x

# %%
%timeit Cell()(torch.randn(2, 4))
`;
const NOTEBOOK = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ id: 'a', cell_type: 'code', metadata: {}, source: 'import torch', outputs: [], execution_count: null }] });

const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;

test('around a model', { timeout: 900_000 }, async t => {
  const files = { 'blocks.py': BLOCKS, 'net.py': NET, 'cells.py': CELLS, 'study.ipynb': NOTEBOOK };
  await drive('around', files, async bench => {
    const { page } = bench;

    await step(t, 'where a constructor creates a submodule, hover says what it takes, gives and costs, and where it is used', async () => {
      await bench.openFile('net.py');
      await bench.lens('nodes').waitFor();
      const said = await bench.hover(lineOf(NET, 'self.up2 = '), 'up2', /Used in/);
      assert.match(said, /up2 · Up · in Net[\s\S]*f32\[2, 8\] → f32\[2, 16\][\s\S]*144 parameters[\s\S]*Used in line 14 self\.up2/);
      await bench.screenshot('constructor');
      assert.match(await bench.hover(lineOf(NET, 'return self.up2'), 'up1', /2 nodes/), /Up · up1 · 2 nodes[\s\S]*Linear, relu/);
      await bench.screenshot('call');
    });

    await step(t, 'a part of another file has a lens to the graph of the model that holds it', async () => {
      await bench.openFile('blocks.py');
      await bench.lens('Traced in Net ×2').waitFor();
      await bench.screenshot('part');
      await bench.clickUntil('the graph of Net', bench.lens('Traced in Net ×2'), async () =>
        (await bench.webview().locator('#file').innerText({ timeout: 3000 })) === 'net.py' && (await bench.webview().locator('#targets').inputValue()) === 'Net');
      await bench.screenshot('holder');
    });

    await step(t, 'commands take the class under the cursor, and lists leave out classes without a graph', async () => {
      await bench.tab('blocks.py');
      await bench.goTo(lineOf(BLOCKS, 'return torch.relu'), 1);
      await bench.command('FX Lens: Show Table of Nodes');
      await page.locator('.tab').filter({ hasText: 'Up.nodes.txt' }).waitFor();
      await bench.tab('blocks.py');
      await bench.goTo(lineOf(BLOCKS, 'not yet'), 1);
      await bench.command('FX Lens: Show Generated Forward');
      await page.locator('.tab').filter({ hasText: 'Up.forward.py' }).waitFor();
      await bench.screenshot('commands');
    });

    await step(t, 'lines of IPython in a file of cells are no syntax errors', async () => {
      await bench.openFile('cells.py');
      await bench.squiggle(lineOf(CELLS, 'if x.sum()'), 'x.sum() > 0');
      assert.ok(!(await bench.problems()).some(row => /FX308/.test(row)));
      await bench.screenshot('cells');
    });

    await step(t, 'the panel of a notebook without a model says so, and shows no other file', async () => {
      await bench.command('FX Lens: Show Graph');
      await until('the cells', async () => (await bench.webview().locator('#file').innerText({ timeout: 3000 })) === 'cells.py');
      await bench.openFile('study.ipynb');
      const texts = () => Promise.all(page.frames().map(frame => frame.locator('body').innerText({ timeout: 1000 }).catch(() => '')));
      await until('the reason', async () => (await texts()).some(text => /defines no nn\.Module/.test(plain(text))));
      await bench.screenshot('notebook');
    });
    assert.deepEqual(await bench.errors(), []);
  });
});

test('an environment that is made in the folder', { timeout: 900_000 }, async t => {
  const net = CELLS.replace(/^[%!].*$/gm, '');
  await drive('interpreters', { 'net.py': net }, async (bench, ws) => {
    const { page } = bench;
    const status = page.locator('.statusbar-item').filter({ hasText: 'FX Lens' });
    const row = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'Choose interpreter' });
    const why = async text => {
      await bench.clickUntil('the menu', status, async () => plain(await row.innerText({ timeout: 3000 })).includes(text));
    };

    await step(t, 'the menu says which interpreter is used and why', async () => {
      await bench.openFile('net.py');
      await why('the first on the path');
      await bench.screenshot('path');
      await page.keyboard.press('Escape');
    });

    await step(t, 'one without torch is noticed within five seconds, and what helps is offered', async () => {
      execFileSync(PYTHON, ['-m', 'venv', '--without-pip', ws.file('.venv')]);
      const made = Date.now();
      await bench.problem(/FX309/);
      const [took, most] = [Date.now() - made, ofAnIdleMachine(5000)];
      assert.ok(took < most, `${took} ms, of ${most}`);
      await until('no lens of the trace before', async () => !(await bench.lens(/problem|node|Graph/).count()));
      await bench.goTo(1, 1);
      await bench.offered(/Choose Interpreter/);
      await bench.screenshot('lightbulb');
      await page.keyboard.press('Escape');
      await why('the .venv of the folder');
      assert.match(plain(await page.locator('.quick-input-list .monaco-list-row').first().innerText()), /Choose interpreter/);
      await bench.screenshot('menu');
      await page.keyboard.press('Escape');
    });

    await step(t, 'so is torch, once it is there', async () => {
      execFileSync(PYTHON, [path.join(import.meta.dirname, '../lab/bare_venv.py'), ws.file('.venv')]);
      await bench.squiggle(lineOf(net, 'if x.sum()'), 'x.sum() > 0');
      await until('no other problem', async () => !(await bench.problems()).some(row => /FX309/.test(row)));
      await bench.screenshot('made');
    });
  }, { settings: { 'fxlens.python': '', 'fxlens.serverPython': PYTHON } });
});
