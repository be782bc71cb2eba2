// A model that nobody can construct without help: the status counts it, its text is read all the same, and a line says how it is made.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drive, plain, step, until } from '../lab/drive.mjs';

const MODEL = `import torch
from torch import nn


class Hard(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(*config.sizes.of("linear"))

    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return self.linear(x)


class Config:
    sizes = None


def config():
    found = Config()
    found.sizes = type("Sizes", (), {"of": lambda self, name: (4, 4)})()
    return found
`;

test('the inputs of a model are set', { timeout: 900_000 }, async t => {
  await drive('inputs', { 'hard.py': MODEL }, async bench => {
    const { page } = bench;
    const box = page.locator('.quick-input-widget').filter({ visible: true }).locator('input').first();
    const message = page.locator('.quick-input-widget .quick-input-message');

    await step(t, 'what reading finds stays, and the status says that a class was not judged', async () => {
      await bench.openFile('hard.py');
      await bench.squiggle(11, 'x.sum() > 0');
      await bench.statusItem(/1 class not judged/);
      await bench.screenshot('unjudged');
    });

    await step(t, 'a line proposes what the search got to, with the argument that nobody knows selected', async () => {
      await bench.command('FX Lens: Set Construction and Example Inputs');
      await until('the proposal', async () => /^Hard\(.+\) <- /.test(await box.inputValue({ timeout: 5000 })));
      const [text, selected] = await box.evaluate(input => [input.value, input.value.slice(input.selectionStart, input.selectionEnd)]);
      assert.equal(text.slice(text.indexOf('(') + 1, text.indexOf(') <-')), selected);
      await until('the verdict', async () => /cannot be constructed/.test(await message.innerText({ timeout: 5000 })));
      await bench.screenshot('proposed');
    });

    await step(t, 'it says whether another one works, before anything is written', async () => {
      await box.fill('Hard(config()) <- torch.randn(2, 4)');
      await until('the verdict', async () => /Works: the model is constructed and called; the trace has 1 problem/.test(await message.innerText({ timeout: 5000 })));
      await bench.screenshot('works');
      await box.press('Enter');
      await bench.waitForText(/# fxlens: Hard\(config\(\)\) <- torch\.randn\(2, 4\)/);
      await bench.squiggle(12, 'x.sum() > 0');
      await bench.statusItem(/FX Lens 1$/);
    });

    await step(t, 'the second time the comment is edited where it is', async () => {
      await bench.command('FX Lens: Set Construction and Example Inputs');
      await until('the comment', async () => (await box.inputValue({ timeout: 5000 })) === 'Hard(config()) <- torch.randn(2, 4)');
      await box.fill('Hard(config()) <- torch.randn(3, 4)');
      await box.press('Enter');
      await bench.waitForText(/# fxlens: Hard\(config\(\)\) <- torch\.randn\(3, 4\)/);
      const text = plain(await page.locator('.editor-instance .view-lines').first().innerText());
      assert.equal(text.match(/# fxlens:/g).length, 1, 'one comment');
    });
    assert.deepEqual(await bench.errors(), []);
  });
});
