// Passes from the palette and the lightbulb: the diff of the generated forward, the numbers, and every way to keep the result.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const MODEL = `import torch
from torch import nn


# fxlens: Stem() <- torch.randn(1, 3, 32, 32)
class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(torch.relu(self.bn(self.conv(x))))
`;
const SOURCE = /^stem\.py/;
const DIFF = /^Stem: Fuse convolutions and batch norms \(6 → 5 nodes, /;

test('a model is changed by passes, and the result is kept', { timeout: 900_000 }, async t => {
  await drive('passes', { 'stem.py': MODEL }, async (bench, ws) => {
    const { page } = bench;
    const side = async name => plain(await page.locator(`.editor.${name} .view-lines`).innerText());

    /** Presses a button in the title of the editor in front. */
    const inTitle = async label => {
      const button = page.locator('.editor-group-container.active .editor-actions').getByRole('button', { name: label });
      await until(`the button ${label}`, async () => { await button.first().click({ timeout: 5000 }); return true; });
    };

    await step(t, 'the palette fuses: sizes and the difference of the results are told', async () => {
      await bench.openFile('stem.py');
      await page.locator('.codelens-decoration').filter({ hasText: /nodes/ }).first().waitFor();
      await bench.command('FX Lens: Fuse Convolutions and Batch Norms');
      assert.match(await bench.told('Stem: 6 nodes before, 5 after.'), /relative difference of the results is \d\.\de-\d+|results are identical/);
    });

    await step(t, 'the diff shows what went', async () => {
      await page.locator('.tab').filter({ hasText: DIFF }).waitFor();
      await bench.dismiss('6 nodes before'); // what the title offers stays
      await until('the fused forward', async () => /relu\(conv\)/.test(await side('modified')));
      assert.match(await side('original'), /self\.bn\(conv\)/);
      assert.doesNotMatch(await side('modified'), /self\.bn/);
      await bench.screenshot('fused');
    });

    await step(t, 'the fused model is saved as a folder', async () => {
      await inTitle(/^Save This Model/);
      await bench.acceptPath('Save Model Here', path.basename(ws.folder));
      await until('the folder', () => fs.existsSync(ws.file('stem_fx/module.py')));
      assert.match(fs.readFileSync(ws.file('stem_fx/module.py'), 'utf8'), /class Stem\(torch\.nn\.Module\)/);
      await bench.screenshot('saved');
      await bench.dismiss('Stem is saved in');
    });

    await step(t, 'it is exported', async () => {
      await bench.tab(DIFF);
      await inTitle(/^Export This Model/);
      await bench.acceptPath('OK', 'Stem.onnx');
      await until('the file', () => fs.existsSync(ws.file('Stem.onnx')) && fs.statSync(ws.file('Stem.onnx')).size > 0);
      await bench.dismiss('Stem is exported to');
    });

    await step(t, 'a function that makes it is written below the class', async () => {
      await bench.tab(DIFF);
      await inTitle(/^Insert a Function/);
      await bench.tab(SOURCE);
      await bench.waitForText(/def fused_stem\(\):[\s\S]*fused = Stem\(\)\.eval\(\)[\s\S]*fused = fuse\(fused\)/);
      await bench.statusItem(/FX Lens$/);
      await bench.screenshot('inserted');
    });

    await step(t, 'several passes are chosen at once, and applied in their order', async () => {
      await bench.tab(SOURCE);
      await bench.command('FX Lens: Preview Passes');
      await bench.tick(['Remove dropout', 'Swap an activation']);
      await bench.screenshot('chosen');
      await page.locator('.quick-input-widget').getByRole('button', { name: 'OK' }).click();
      const other = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: /^GELU/ });
      await other.first().click();
      await bench.told('1 place swapped');
      await until('the swapped forward', async () => /relu_replaced\(bn\)/.test(await side('modified')));
      assert.doesNotMatch(await side('modified'), /self\.drop/);
      await bench.dismiss('1 place swapped');
    });

    await step(t, 'the lightbulb of the class quantizes it', async () => {
      await bench.tab(SOURCE);
      await bench.goTo(6, 8);
      await bench.offered(/Quantize to 8-bit integers of Stem/);
      await bench.screenshot('lightbulb');
      await bench.choose(/Quantize to 8-bit integers of Stem/);
      await bench.told('1 layer on integers');
      await until('the quantized forward', async () => /quantize/.test(await side('modified')));
      await bench.screenshot('quantized');
    });
    assert.deepEqual(await bench.errors(), []);
  });
});
