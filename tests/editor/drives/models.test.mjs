// The page that `fxlens check --format html` writes, opened from the disk in a browser.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startBrowser } from '../lab/browser.mjs';
import { PYTHON, REPOSITORY } from '../lab/vscode.mjs';
import { Workbench } from '../lab/workbench.mjs';

const HURT = '</script><script>window.hurt=1</script><img src=x onerror="window.hurt=1">';
const MODELS = `import torch
from torch import nn


# fxlens: Gate(4) <- torch.randn(2, 4)
class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor):
        return self.linear(x) * len(x)


# fxlens: Clean() <- torch.randn(2, 3, 8, 8)
class Clean(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


# fxlens: Hostile(${JSON.stringify(HURT)}) <- torch.randn(2, 4)
class Hostile(nn.Module):
    def __init__(self, label):
        super().__init__()
        raise ValueError(label)

    def forward(self, x):
        return x
`;

describe('the page of all models', { timeout: 300_000 }, () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-models-'));
  const requests = [];
  const complaints = [];
  let browser, page, bench;
  before(async () => {
    fs.writeFileSync(path.join(folder, 'models.py'), MODELS);
    fs.writeFileSync(path.join(folder, 'setup.cfg'), ''); // here the project begins, whatever lies above
    const env = { ...process.env, PYTHONPATH: [REPOSITORY, path.join(REPOSITORY, 'server')].join(path.delimiter), XDG_CACHE_HOME: folder };
    const done = spawnSync(PYTHON, ['-m', 'fxlens', 'check', 'models.py', '--format', 'html', '--output', 'page.html'], { cwd: folder, env, encoding: 'utf8' });
    assert.equal(done.status, 1, done.stderr);
    browser = await startBrowser({ width: 1200, height: 900 });
    page = browser.page;
    bench = new Workbench(page, 'models');
    page.on('request', request => requests.push(request.url()));
    page.on('console', message => complaints.push(message.text()));
    page.on('pageerror', error => complaints.push(String(error)));
    await page.goto(`file://${path.join(folder, 'page.html')}`);
  });
  after(async () => {
    await browser?.stop();
    fs.rmSync(folder, { recursive: true });
  });
  const names = () => page.locator('tbody > tr:not(.details) strong').allInnerTexts();
  const row = name => page.locator('tbody > tr:not(.details)').filter({ has: page.getByText(name, { exact: true }) });

  test('has a row for each class', async () => {
    assert.deepEqual(await names(), ['Gate', 'Clean', 'Hostile']);
    assert.equal(await page.locator('output').innerText(), '3 classes: 1 captured, 1 not captured, 1 not judged');
    assert.match(await row('Clean').innerText(), /Clean\s+✓\s+models\.py:16\s+Clean\(\) comment\s+112\s+/);
    await bench.screenshot('table');
  });

  test('is sorted by a click on a column, with the largest first, and the other way round by the next', async () => {
    const parameters = page.getByRole('button', { name: 'Parameters' });
    await parameters.click();
    assert.deepEqual(await names(), ['Clean', 'Gate', 'Hostile']);
    await parameters.click();
    assert.deepEqual(await names(), ['Gate', 'Clean', 'Hostile'], 'what is not known stays last');
    assert.equal(await page.locator('th').filter({ hasText: 'Parameters' }).getAttribute('aria-sort'), 'ascending');
    await page.getByRole('button', { name: 'torch.fx' }).click();
    assert.deepEqual(await names(), ['Gate', 'Clean', 'Hostile']);
  });

  test('is filtered by words and by what became of the classes', async () => {
    await page.getByRole('searchbox').fill('fx120 MODELS.py');
    assert.deepEqual(await names(), ['Gate']);
    assert.equal(await page.locator('output').innerText(), '1 of 3 rows');
    await page.getByRole('searchbox').fill('');
    await page.locator('select').selectOption('Captured');
    assert.deepEqual(await names(), ['Clean']);
    await page.locator('select').selectOption('All classes');
  });

  test('shows the problems of a class with their places and proven fixes, and its graph', async () => {
    await row('Gate').click();
    const details = page.locator('tr.details');
    assert.match(await details.locator('.finding').innerText(), /error FX120 models\.py:12 torch\.fx[\s\S]*Proven fix: Use x\.shape\[0\]/);
    assert.equal(await details.locator('.added').innerText(), '+        return self.linear(x) * x.shape[0]\n');
    await row('Gate').press('Enter');
    assert.equal(await details.count(), 0);
    await row('Clean').press('Enter');
    await details.locator('g.node').first().waitFor(); // it is unpacked first
    assert.deepEqual(await details.locator('g.node > text:first-of-type').allTextContents(), ['x', 'Conv2d', 'ReLU', 'output']);
    const [ground, box] = await details.locator('g.convolution path').evaluate(path => [getComputedStyle(document.body).backgroundColor, getComputedStyle(path).fill]);
    assert.notEqual(box, 'none');
    assert.notEqual(box, ground);
  });

  test('takes what user code says for text', async () => {
    await row('Hostile').click();
    assert.ok((await page.locator('tr.details').last().innerText()).includes(HURT));
    assert.equal(await page.evaluate(() => window.hurt), undefined);
    assert.equal(await page.locator('img').count(), 0);
  });

  test('is light or dark as the system is', async () => {
    const ground = async colorScheme => {
      await page.emulateMedia({ colorScheme });
      return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    };
    assert.equal(await ground('light'), 'rgb(255, 255, 255)');
    await bench.screenshot('light');
    assert.equal(await ground('dark'), 'rgb(27, 28, 30)');
    await bench.screenshot('dark');
  });

  test('asks for nothing but itself, and its policy has nothing to refuse', () => {
    assert.deepEqual(requests, [`file://${path.join(folder, 'page.html')}`]);
    assert.deepEqual(complaints, []);
  });
});
