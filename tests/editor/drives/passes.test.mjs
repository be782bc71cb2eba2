// A pass from the palette: the diff of the generated forward, and what is said of the numbers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/workbench.mjs';

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

test('convolutions and batch norms are fused, with the forward before and after', { timeout: 240_000 }, async t => {
  await drive('passes', { 'stem.py': MODEL }, async bench => {
    const { page } = bench;
    await step(t, 'the message gives sizes and the difference of the results', async () => {
      await bench.openFile('stem.py');
      await page.locator('.codelens-decoration').filter({ hasText: /nodes/ }).first().waitFor();
      await bench.command('FX Lens: Preview a Pass');
      const choice = page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'Fuse convolutions' });
      await choice.waitFor();
      await page.keyboard.press('Enter');
      const toast = page.locator('.notification-toast').filter({ hasText: 'Stem: 6 nodes before, 5 after.' });
      await toast.waitFor();
      assert.match(await toast.innerText(), /The result differs by \d\.\de-\d+|the same to the last bit/);
      await bench.screenshot('fused');
    });

    await step(t, 'the diff shows what went', async () => {
      await page.locator('.tab').filter({ hasText: 'Stem: Fuse convolutions' }).waitFor();
      const side = async name => plain(await page.locator(`.editor.${name} .view-lines`).innerText());
      await until('the fused forward', async () => /relu\(conv\)/.test(await side('modified')));
      assert.match(await side('original'), /self\.bn\(conv\)/);
      assert.doesNotMatch(await side('modified'), /self\.bn/);
    });
  });
});
