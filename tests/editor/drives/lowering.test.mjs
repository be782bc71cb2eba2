// A model for real, from the palette: lowered with a look at the layers, benchmarked, and a benchmark that is cancelled.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { ENCODER } from '../lab/encoder.mjs';
import { drive, plain, step, until } from '../lab/drive.mjs';

const lineOf = part => ENCODER.split('\n').findIndex(line => line.includes(part)) + 1;

/** Processes that run a job on a model for real: they are started for it and end with it. */
const jobs = () => execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).split('\n').filter(line => /zygote\.py spare .*\/bundled\/libs\/fxlens/.test(line)).length;

test('a model is lowered and benchmarked', { timeout: 900_000 }, async t => {
  await drive('lowering', { 'encoder.py': ENCODER }, async bench => {
    const { page } = bench;
    const sheet = () => bench.webview();
    const choose = async label => {
      const row = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: label }).first();
      await row.waitFor();
      await row.click();
    };
    const ended = state => until(state, async () => (await sheet().locator('body').getAttribute('data-state')) === state, 600_000);

    await step(t, 'what an engine could not take is marked before anyone lowers', async () => {
      await bench.openFile('encoder.py');
      await bench.goTo(lineOf('torch.logcumsumexp'), 24);
      await until('the mark', async () => (await page.locator('.editor-instance .cdr.squiggly-hint').count()) > 0);
      const told = await bench.hover(lineOf('torch.logcumsumexp'), 'logcumsumexp', 'stays in PyTorch');
      assert.match(told, /FX401: .*stays in PyTorch when Encoder is lowered/);
      await bench.screenshot('hint');
      await page.keyboard.press('Escape');
    });

    const build = async engine => {
      await until('the preview', async () => (await sheet().locator('#title').innerText({ timeout: 5000 })) === `Encoder on ${engine}, preview`);
      await sheet().locator('#action-build').click();
      await until('the lowered model', async () => (await sheet().locator('#title').innerText({ timeout: 5000 })) === `Encoder on ${engine}`, 600_000);
    };
    await step(t, 'the palette shows what an engine would take, and builds nothing', async () => {
      await bench.command('FX Lens: Lower to an Engine');
      await choose(/^ONNX Runtime/);
      await sheet().locator('#title').waitFor();
      await ended('sheet');
      const text = plain(await sheet().locator('body').innerText());
      assert.match(text, /Encoder on ONNX Runtime, preview/);
      assert.match(text, /FX401: stays in PyTorch/);
      assert.match(text, /of the operations/);
      assert.doesNotMatch(text, /difference from eager/);
      await bench.screenshot('preview');
    });

    await step(t, 'the preview is built', async () => {
      await build('ONNX Runtime');
      const text = plain(await sheet().locator('body').innerText());
      assert.match(text, /Encoder on ONNX Runtime/);
      assert.match(text, /FX401: stays in PyTorch/);
      assert.match(text, /difference from eager/);
      const parts = await sheet().locator('section').filter({ hasText: /^\s*Parts/ }).locator('tbody tr.link').allInnerTexts();
      assert.equal(parts.length, 3, `engine, PyTorch, engine: ${parts}`);
      await bench.screenshot('lowered');
    });

    const selected = () => sheet().locator('section').filter({ hasText: 'Layers' }).locator('tr.selected > td:first-child').allInnerTexts();
    await step(t, 'the cursor marks the layers of its line', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.goTo(lineOf('self.norm(x'));
      await until('the layers', async () => JSON.stringify((await selected()).sort()) === JSON.stringify(['add', 'norm', 'query', 'tanh']));
      await bench.screenshot('linked');
    });

    await step(t, 'a layer leads to its source', async () => {
      const line = lineOf('softmax');
      // The panel keeps the focus, so the status bar names no line; the source's own line number does.
      const active = page.locator('.editor-instance').filter({ hasText: 'class' }).locator('.active-line-number');
      await bench.clickUntil('the line of the layer', sheet().locator('tr.link > td:first-child').getByText('softmax', { exact: true }),
        async () => (await active.first().innerText({ timeout: 5000 })) === String(line));
    });

    await step(t, 'a benchmark that is cancelled leaves nothing behind', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Benchmark');
      await choose(/^Batch 1 and 8/);
      await until('progress', async () => /preparing|round/.test(await sheet().locator('#stage').innerText()), 600_000);
      assert.ok(jobs() > 0, 'a process of its own');
      await bench.screenshot('running');
      await page.locator('.tab').filter({ hasText: 'Lower Encoder' }).waitFor(); // its result has a tab of its own
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Estimate on Device');
      await choose(/^H100/);
      await bench.dismiss('Benchmark Encoder is still running');
      await bench.tab('Benchmark Encoder');
      await sheet().locator('#cancel').click(); // it stays there until the cancelled job has ended
      await ended('failed');
      assert.match(await sheet().locator('#reason').innerText(), /Cancelled/);
      await until('no process', () => jobs() === 0);
    });

    await step(t, 'a benchmark ends with a plot and a table', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Benchmark');
      await choose(/^As given, without torch\.compile/);
      await ended('sheet');
      const rows = await sheet().locator('section').filter({ hasText: 'One call' }).locator('tbody tr:not(.note)').allInnerTexts();
      assert.ok(rows.some(row => /ONNX Runtime.*ms.*×/.test(plain(row).replace(/\s+/g, ' '))), rows.join('\n'));
      assert.ok((await sheet().locator('#plot rect').count()) >= 4);
      await bench.screenshot('benchmarked');
    });

    await step(t, 'the time of each layer stands at its line, and its row leads there', async () => {
      const layers = sheet().locator('section').filter({ hasText: 'ONNX Runtime by layer' }).locator('tbody tr.link');
      assert.ok((await layers.count()) >= 4, await sheet().locator('#tables').innerText());
      const hint = page.locator('.editor-instance .view-line').filter({ hasText: 'torch.logcumsumexp' }).filter({ hasText: /\d\s%\s·\s\d/ });
      await until('the time at the line', async () => (await hint.count()) > 0);
      await bench.goTo(lineOf('class Encoder'));
      const active = page.locator('.editor-instance').filter({ hasText: 'class' }).locator('.active-line-number');
      await bench.clickUntil('the line of the layer', layers.filter({ hasText: 'softmax' }).first().locator('td').first(),
        async () => (await active.first().innerText({ timeout: 5000 })) === String(lineOf('softmax')));
      await layers.first().scrollIntoViewIfNeeded();
      await bench.screenshot('times');
    });

    await step(t, 'the palette estimates the model on a device that is not here, and hover on one of the setting', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Estimate on Device');
      await choose(/^H100/);
      await until('the estimate', async () => (await sheet().locator('#title').innerText({ timeout: 5000 })) === 'Encoder on H100, estimated');
      assert.match(plain(await sheet().locator('body').innerText()), /about .* on H100: .* for operations and memory, by the roofline, and .* to start the kernels/);
      await bench.screenshot('estimated');
      assert.match(await bench.hover(lineOf('torch.logcumsumexp'), 'logcumsumexp', 'about'), /about \d.* µs on A100/);
      await page.keyboard.press('Escape');
    });

    await step(t, 'the palette lowers to OpenVINO, too', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Lower to an Engine');
      await choose(/^OpenVINO(?!,)/);
      await build('OpenVINO');
      const text = plain(await sheet().locator('body').innerText());
      assert.match(text, /difference from eager/);
      assert.match(text, /FullyConnected/);
      await bench.screenshot('openvino');
    });

    await step(t, 'the graph is coloured by what stays in PyTorch', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.command('FX Lens: Show Graph');
      const marked = async () => {
        const frames = page.locator('iframe.webview.ready').filter({ visible: true });
        for (let at = 0; at < await frames.count(); at++) {
          const boxes = frames.nth(at).contentFrame().frameLocator('iframe#active-frame').locator('g.node.pytorch');
          if (await boxes.count()) return boxes.allTextContents();
        }
        return [];
      };
      await until('the mark', async () => (await marked()).some(text => text.includes('logcumsumexp')));
      assert.equal((await marked()).length, 1, 'and nothing beside it');
      await bench.screenshot('graph');
    });
  }, { settings: { 'fxlens.device': 'A100' } });
});

test('the stages of a model stand side by side', { timeout: 900_000 }, async t => {
  await drive('stages', { 'encoder.py': ENCODER }, async bench => {
    const { page } = bench;
    const rows = () => bench.webview().locator('section').filter({ hasText: 'Nodes' }).locator('tbody tr.link');
    const cells = async name => (await rows().filter({ has: page.getByText(name, { exact: true }) }).first().locator('td').allInnerTexts()).map(plain);

    await step(t, 'the palette shows them, compared with eager', async () => {
      await bench.openFile('encoder.py');
      await bench.lens(/Graph/).first().waitFor({ timeout: 120_000 });
      await bench.command('FX Lens: Compare Stages');
      const row = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'Compared with Eager' });
      await row.waitFor();
      await row.click();
      await until('the stages', async () => (await bench.webview().locator('body').getAttribute('data-state', { timeout: 5000 })) === 'sheet', 300_000);
      const [node, exported, fused, onnx, engine, ...apart] = await cells('softmax');
      assert.deepEqual([node, fused, onnx, engine], ['softmax', 'torch.softmax', 'Softmax', 'Softmax'], String([node, exported, fused, onnx, engine]));
      assert.match(exported, /aten\.softmax/);
      assert.equal(apart.length, 5);
      assert.ok(apart.slice(1).every(each => /\(.*\)/.test(each)), String(apart));
      assert.deepEqual((await cells('logcumsumexp')).slice(3, 5), ['PyTorch', 'PyTorch']);
      await bench.screenshot('stages');
    });

    await step(t, 'the cursor and the rows select each other', async () => {
      await bench.tab(/^encoder\.py/);
      await bench.goTo(lineOf('torch.logcumsumexp'), 24);
      const selected = () => bench.webview().locator('tr.selected > td:first-child').allInnerTexts();
      await until('the rows of the line', async () => (await selected()).map(plain).includes('logcumsumexp'));
      const active = page.locator('.editor-instance').filter({ hasText: 'class' }).locator('.active-line-number');
      await bench.clickUntil('the line of the node', rows().locator('td:first-child').getByText('softmax', { exact: true }),
        async () => (await active.first().innerText({ timeout: 5000 })) === String(lineOf('softmax')));
      await bench.screenshot('linked');
    });

    await step(t, 'the page changes what is between and the engine', async () => {
      const heads = async () => (await bench.webview().locator('th').allInnerTexts({ timeout: 5000 })).map(plain);
      assert.deepEqual((await heads()).slice(1, 5), ['torch.export', 'fused', 'ONNX', 'ONNX Runtime']);
      await bench.webview().locator('#choice-form').selectOption('quantized');
      await until('the quantized model', async () => (await heads()).includes('quantized'), 300_000);
      await bench.webview().locator('#choice-engine').selectOption('openvino');
      await until('the other engine', async () => (await heads()).includes('OpenVINO'), 300_000);
      assert.deepEqual((await heads()).slice(1, 5), ['torch.export', 'quantized', 'ONNX', 'OpenVINO']);
      assert.match((await cells('query'))[2], /dequantize/);
      assert.match(await bench.webview().locator('#facts').innerText(), /OpenVINO gives no values between its kernels/);
      await bench.screenshot('quantized');
    });
  });
});
