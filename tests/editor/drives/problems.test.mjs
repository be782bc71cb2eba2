// The main use: a broken model is opened, its problem seen, mended through the lightbulb; then typing brings and takes problems.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { REPOSITORY } from '../lab/vscode.mjs';
import { drive, step, until } from '../lab/drive.mjs';

const example = name => fs.readFileSync(path.join(REPOSITORY, 'examples', name), 'utf8');
const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;

test('a problem is seen, mended through the lightbulb, and typing is followed', { timeout: 900_000 }, async t => {
  const text = example('broken/wrap_me.py');
  const condition = 'logits.max() > 10.0';
  const line = lineOf(text, `if ${condition}`);
  const column = text.split('\n')[line - 1].indexOf(condition) + 1;

  await drive('problems', { 'wrap_me.py': text, 'five_faults.py': example('broken/five_faults.py') }, async (bench, files) => {
    await step(t, 'opening the file underlines exactly the condition', async () => {
      await bench.openFile('wrap_me.py');
      await bench.squiggle(line, condition);
      assert.deepEqual(await bench.squiggles(), [{ line, text: condition }]);
    });

    await step(t, 'the Problems view has one entry, with the rule and the place', async () => {
      const row = await bench.problem(/FX101/);
      assert.match(row, new RegExp(`fxlens ?\\(?FX101\\)? ?\\[Ln ${line}, Col ${column}\\]$`));
      await bench.statusItem(/FX Lens 1$/);
      await bench.screenshot('problem');
    });

    await step(t, 'the lightbulb offers the wrap fix', async () => {
      await bench.goTo(line, column + 2);
      await bench.offered(/torch\.fx\.wrap\("sharpen"\)/);
      await bench.screenshot('lightbulb');
    });

    await step(t, 'choosing it mends the model', async () => {
      await bench.choose(/torch\.fx\.wrap\("sharpen"\)/);
      await bench.waitForText(/torch\.fx\.wrap\(["']sharpen["']\)/);
      await until('no squiggle', async () => (await bench.squiggles()).length === 0);
      await until('no problem', async () => !(await bench.problems()).some(row => /FX1/.test(row)));
      await bench.statusItem(/FX Lens$/);
      await bench.screenshot('mended');
      await bench.save();
      await until('the saved file', () => /torch\.fx\.wrap/.test(fs.readFileSync(files.file('wrap_me.py'), 'utf8')));
    });

    await step(t, 'a data-dependent if that is typed, not saved, is underlined', async () => {
      const saved = fs.readFileSync(files.file('wrap_me.py'), 'utf8');
      const at = lineOf(saved, 'logits = self.body(x)');
      await bench.goTo(at, 200);
      await bench.page.keyboard.press('Enter');
      await bench.page.keyboard.type(`${' '.repeat(8)}if logits.sum() > 0:`);
      await bench.page.keyboard.press('Enter');
      await bench.page.keyboard.type(`${' '.repeat(12)}logits = logits + 1`);
      await bench.squiggle(at + 1, 'logits.sum() > 0');
      await bench.screenshot('typed');
      assert.equal(fs.readFileSync(files.file('wrap_me.py'), 'utf8'), saved, 'nothing was saved');
    });

    await step(t, 'half-typed text neither crashes nor loses the server', async () => {
      await bench.page.keyboard.press('Enter');
      await bench.page.keyboard.insertText(`${' '.repeat(8)}return torch.softmax((logits`);
      await bench.problem(/FX308|was never closed/);
      await bench.screenshot('syntax-error');
      assert.doesNotMatch(await bench.status(), /error/i);
      assert.deepEqual(await bench.errors(), []);
      for (let i = 0; i < 3; i++) await bench.page.keyboard.press('Control+Z');
      const now = fs.readFileSync(files.file('wrap_me.py'), 'utf8');
      await bench.noSquiggle(lineOf(now, 'return torch.softmax') + 2);
    });

    // Five faults of one model: underlined at once, and mended at once.
    await bench.command('View: Revert and Close Editor');
    await step(t, 'five faults of one model are underlined', async () => {
      await bench.openFile('five_faults.py');
      await until('five problems', async () => (await bench.problems()).filter(row => /FX1\d\d/.test(row)).length === 5);
      await bench.screenshot('all');
      assert.ok((await bench.squiggles()).length >= 1);
    });

    await step(t, 'Fix All mends what can be proven, as one edit', async () => {
      await bench.command('Fix All');
      await bench.waitForText(/torch\.fx\.wrap\("_set_boxes"\)/);
      await bench.goTo(44);
      await bench.waitForText(/batch = raw\.shape\[0\][\s\S]*scale = _scale\(raw\)/);
      await until('no problem', async () => !(await bench.problems()).some(row => /FX1\d\d/.test(row)));
      await bench.screenshot('all-mended');
      await bench.goTo(1);
      await bench.page.keyboard.press('Control+Z');
      await bench.waitForText(/batch = len\(raw\)[\s\S]*scale = np\.sqrt\(raw\.shape\[1\]\)/);
      assert.equal(fs.readFileSync(files.file('five_faults.py'), 'utf8'), example('broken/five_faults.py'), 'nothing was saved');
    });
  });
});
