// The views of one model: lenses, shapes, hover, the graph, the generated code, and one selection through all of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { REPOSITORY } from '../lab/vscode.mjs';
import { drive, plain, step, until } from '../lab/drive.mjs';

const text = fs.readFileSync(path.join(REPOSITORY, 'examples', 'mlp_mixer.py'), 'utf8');
const lines = text.split('\n');
const lineOf = part => lines.findIndex(line => line.includes(part)) + 1;

test('a model is read in all views', { timeout: 900_000 }, async t => {
  await drive('views', { 'mlp_mixer.py': text }, async bench => {
    const { page } = bench;
    const lens = pattern => page.locator('.codelens-decoration').filter({ hasText: pattern });
    const mixer = /x:.f32\[1,.3,.224,.224\]/;
    const code = () => page.locator('.editor-instance').filter({ hasText: 'def forward' }).last();

    await step(t, 'lenses stand above each model', async () => {
      await bench.openFile('mlp_mixer.py');
      await lens(/✓.\d+.nodes/).first().waitFor();
      await bench.goTo(lineOf('class MlpMixer'));
      await lens(/✓.\d+.nodes.*Graph.*Code.*Table.*x:.f32\[1,.3,.224,.224\]/).waitFor();
      await bench.screenshot('lenses');
    });

    await step(t, 'shapes stand at the ends of traced lines', async () => {
      const hint = page.locator('.view-line span').filter({ hasText: /^.?f32\[1,.1000\]$/ });
      await hint.first().waitFor();
      await page.locator('.view-line span').filter({ hasText: /×\d+$/ }).first().waitFor();
    });

    await step(t, 'shapes go and come by a command', async () => {
      const hints = () => page.locator('.view-line span').filter({ hasText: /^.?f32\[1,.1000\]$/ }).count();
      await bench.command('FX Lens: Toggle Shapes');
      await until('no shapes', async () => (await hints()) === 0);
      await bench.command('FX Lens: Toggle Shapes');
      await until('shapes', async () => (await hints()) > 0);
    });

    await step(t, 'hover tells of an expression', async () => {
      const told = await bench.hover(lineOf('.mean('), 'mean', 'call_method');
      assert.match(told, /mean[\s\S]*f32\[1, 196, 768\] → f32\[1, 768\]/);
      await bench.screenshot('hover');
      await page.keyboard.press('Escape');
    });

    await step(t, 'the graph opens beside the source', async () => {
      await bench.clickUntil('the graph', bench.lens('Graph', mixer), async () => (await bench.webview().locator('g.node').count()) > 0);
      await until('the model that was asked for', async () => (await bench.webview().locator('#targets').inputValue()) === 'MlpMixer');
      await bench.screenshot('graph');
    });

    await step(t, 'the generated forward opens and is read-only', async () => {
      await bench.clickForTab(bench.lens('Code', mixer), 'MlpMixer.forward.py');
      await code().locator('.view-line').filter({ hasText: /def.forward/ }).first().waitFor();
      await bench.screenshot('code');
    });

    await step(t, 'a line of the source marks its nodes and its generated lines', async () => {
      await bench.tab(/^mlp_mixer\.py/);
      await bench.goTo(lineOf('.mean('));
      const selected = bench.webview().locator('g.node.selected');
      await until('the nodes', async () => {
        const ids = await selected.evaluateAll(all => all.map(node => node.id).sort());
        return JSON.stringify(ids) === JSON.stringify(['n:head', 'n:mean', 'n:output']);
      });
      await until('the generated line', async () => (await code().locator('.view-overlays .cdr').count()) > 0);
      await bench.screenshot('linked');
    });

    await step(t, 'a node moves the selection of the source', async () => {
      const line = lineOf('.flatten(2)');
      const expression = 'self.stem(x).flatten(2)';
      const end = lines[line - 1].indexOf(expression) + expression.length + 1;
      const position = `Ln ${line}, Col ${end} (${expression.length} selected)`;
      await bench.clickUntil(position, bench.webview().locator('[id="n:flatten"]'), async () => (await bench.position()).includes(position));
      await bench.screenshot('from-graph');
    });

    await step(t, 'a range of lines marks the nodes of all of them', async () => {
      await bench.doUntil('the nodes of both lines', async () => {
        await bench.goTo(lineOf('x = self.stem(x)'));
        for (let i = 0; i < 2; i++) await page.keyboard.press('Shift+ArrowDown');
      }, async () => {
        const ids = await bench.webview().locator('g.node.selected').evaluateAll(all => all.map(node => node.id));
        return ['n:stem', 'n:flatten', 'n:transpose', 'n:norm'].every(id => ids.includes(id)) && !ids.includes('n:mean') && !ids.includes('n:head');
      });
      await bench.screenshot('range');
    });

    await step(t, 'a range of generated lines selects what they come from, in the source and in the graph', async () => {
      await bench.tab('MlpMixer.forward.py');
      await bench.doUntil('the nodes of the last lines', async () => {
        await page.keyboard.press('Control+End');
        for (let i = 0; i < 4; i++) await page.keyboard.press('Shift+ArrowUp'); // norm, mean, head and the return
      }, async () => {
        const ids = await bench.webview().locator('g.node.selected').evaluateAll(all => all.map(node => node.id).sort());
        return JSON.stringify(ids) === JSON.stringify(['n:head', 'n:mean', 'n:norm', 'n:output']);
      });
      await bench.tab(/^mlp_mixer\.py/);
      await until('the expressions of both lines', async () => /^2 selections/.test(await page.locator('.statusbar-item').filter({ hasText: /selections/ }).innerText({ timeout: 5000 })));
      await bench.screenshot('range-of-generated');
    });
  });
});
