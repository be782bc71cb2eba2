// Three captures of one class: the lens says what each does, findings say for whom they hold, both class actions, captured graphs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BREAKS } from '../lab/breaks.mjs';
import { drive, step } from '../lab/drive.mjs';

const CLASS = 6;
const IF = 13;

test('what torch.fx, torch.export and torch.compile do with a class', { timeout: 1_800_000 }, async t => {
  const settings = { 'fxlens.captures': ['fx', 'export', 'compile'], 'fxlens.deadline': 60 };
  await drive('captures', { 'net.py': BREAKS }, async bench => {
    await step(t, 'the lens of the class at the cursor has the three verdicts', async () => {
      await bench.openFile('net.py');
      await bench.goTo(IF, 5);
      await bench.lens(/fx.✗.1.·.export.✗.·.compile.2.breaks/).waitFor({ timeout: 300_000 });
      await bench.screenshot('lens');
    });

    await step(t, 'one finding holds for all of them', async () => {
      await bench.squiggle(IF, 'x.sum() > 0');
      const text = await bench.hover(IF, 'x.sum() > 0', /FX101/);
      assert.match(text, /torch\.export fails here, GuardOnDataDependentSymNode/);
      assert.match(text, /torch\.compile breaks the graph here, GB0170/);
      await bench.screenshot('finding');
      await bench.page.keyboard.press('Escape');
    });

    await step(t, 'the compiled graphs are boxes in the graph panel', async () => {
      await bench.clickUntil('the graph', bench.lens('Compiled graphs'), async () => (await bench.webview().locator('g.cluster').count()) >= 3);
      await bench.screenshot('compiled-graphs');
    });

    await step(t, 'the graph breaks of the class are removed by one reviewed change', async () => {
      await bench.openFile('net.py');
      await bench.goTo(CLASS, 8);
      await bench.choose(/^Remove the graph breaks of Net$/);
      await review(bench, 'breaks-reviewed');
      await bench.waitForText(/torch\.compiler\.is_compiling\(\)/);
      await bench.waitForText(/torch\.where\(/);
      await bench.goTo(IF, 5);
      await bench.lens(/export.✓.·.compile.✓/).waitFor({ timeout: 300_000 });
      await bench.screenshot('breaks-removed');
    });

    await step(t, 'dynamic_shapes are written for the export', async () => {
      await bench.goTo(CLASS, 8);
      await bench.choose(/^Write dynamic_shapes for the export of Net$/);
      await bench.waitForText(/NET_SHAPES = \{"x": \{0: torch\.export\.Dim\("batch"\)\}\}/);
      await bench.screenshot('dynamic-shapes');
    });
    assert.deepEqual(await bench.errors(), []);
  }, { settings });
});

/** The editor shows the change as a diff, and applies it when it is told to. */
async function review(bench, label) {
  const apply = bench.page.getByRole('button', { name: 'Apply', exact: true }).filter({ visible: true }).first();
  await apply.waitFor({ timeout: 300_000 });
  await bench.page.locator('.edit-checkbox').first().check();
  await bench.screenshot(label);
  await bench.clickUntil('the change', apply, async () => !(await apply.count()));
}
