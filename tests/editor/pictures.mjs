// Takes the pictures of the README anew: `node pictures.mjs`, or those that are named: `node pictures.mjs graph`.
import fs from 'node:fs';
import path from 'node:path';
import { BREAKS } from './lab/breaks.mjs';
import { ENCODER } from './lab/encoder.mjs';
import { REPOSITORY } from './lab/vscode.mjs';
import { drive, until } from './lab/drive.mjs';

const IMAGES = path.join(REPOSITORY, 'docs', 'images');
const LOOK = {
  'workbench.colorTheme': 'Default Dark Modern', 'editor.fontSize': 13, 'workbench.activityBar.location': 'default',
  'explorer.openEditors.visible': 0, 'editor.stickyScroll.enabled': false, 'breadcrumbs.enabled': false,
  'editor.occurrencesHighlight': 'off',
};
const WINDOW = { width: 1280, height: 800, scale: 1.5 };
const example = name => fs.readFileSync(path.join(REPOSITORY, 'examples', name), 'utf8');
const lineOf = (text, part) => text.split('\n').findIndex(line => line.includes(part)) + 1;

async function take(name, files, act, settings = {}) {
  if (process.argv.length > 2 && !process.argv.includes(name)) return;
  await drive(`picture-${name}`, files, async bench => {
    await act(bench);
    await bench.page.waitForTimeout(1500); // animations
    fs.mkdirSync(IMAGES, { recursive: true });
    await bench.page.screenshot({ path: path.join(IMAGES, `${name}.png`) });
    console.log(`docs/images/${name}.png`);
  }, { vscode: { settings: { ...LOOK, ...settings } }, browser: WINDOW });
}

const faults = example('broken/five_faults.py');
const mixer = example('mlp_mixer.py');
const MIXER = /x:.f32\[1,.3,.224,.224\]/;

await take('problems', { 'five_faults.py': faults }, async bench => {
  await bench.openFile('five_faults.py');
  await bench.page.keyboard.press('Control+B');
  await until('five problems', async () => (await bench.problems()).filter(row => /FX1/.test(row)).length === 5);
  await bench.goTo(lineOf(faults, 'len(raw)'), 20);
  await bench.offered(/^Use raw\.shape\[0\]$/); // without the remark that it is being checked
});

await take('shapes', { 'mlp_mixer.py': mixer }, async bench => {
  await bench.openFile('mlp_mixer.py');
  await bench.page.locator('.codelens-decoration').filter({ hasText: /nodes/ }).first().waitFor();
  await bench.goTo(lineOf(mixer, 'class MixerBlock'));
  await bench.goTo(lineOf(mixer, 'class MlpMixer') + 3);
  await bench.page.keyboard.press('Control+B');
  await bench.hover(lineOf(mixer, 'self.stem(x)'), 'stem', 'call_module');
});

await take('graph', { 'mlp_mixer.py': mixer }, async bench => {
  await bench.openFile('mlp_mixer.py');
  const lens = bench.page.locator('.codelens-decoration').filter({ hasText: /nodes/ });
  await lens.first().waitFor();
  await bench.goTo(lineOf(mixer, 'class MlpMixer'));
  await bench.lens('Graph', MIXER).click();
  await bench.webview().locator('g.node').first().waitFor();
  await bench.clickForTab(bench.lens('Code', MIXER), 'forward.py');
  await bench.tab(/^mlp_mixer\.py/);
  await bench.goTo(lineOf(mixer, '.mean('), mixer.split('\n')[lineOf(mixer, '.mean(') - 1].indexOf('mean') + 1);
  await bench.page.mouse.move(900, 760);
  await bench.webview().locator('g.node.selected').first().waitFor();
});

const resnet = example('resnet50.py');
await take('fusion', { 'resnet50.py': resnet }, async bench => {
  await bench.openFile('resnet50.py');
  const lens = bench.page.locator('.codelens-decoration').filter({ hasText: /nodes/ });
  await lens.first().waitFor();
  await bench.goTo(lineOf(resnet, 'class ResNet50'));
  await bench.page.keyboard.press('Control+B');
  await bench.command('FX Lens: Fuse Convolutions and Batch Norms');
  await bench.page.locator('.quick-input-list .monaco-list-row').filter({ hasText: 'ResNet50' }).first().click();
  await bench.notification('nodes before').waitFor();
  await bench.page.locator('.editor.modified .view-line').first().waitFor();
});

await take('lowering', { 'encoder.py': ENCODER }, async bench => {
  await bench.openFile('encoder.py');
  await bench.page.keyboard.press('Control+B');
  await bench.page.locator('.codelens-decoration').filter({ hasText: /nodes/ }).first().waitFor();
  await bench.command('FX Lens: Lower to an Engine');
  const row = bench.page.locator('.quick-input-list .monaco-list-row').filter({ hasText: /^ONNX Runtime/ }).first();
  await row.waitFor();
  await row.click();
  const build = bench.webview().locator('#action-build');
  await build.click();
  await build.waitFor({ state: 'detached' });
  await until('the layers', async () => (await bench.webview().locator('body').getAttribute('data-state')) === 'sheet');
  await bench.tab(/^encoder\.py/);
  await bench.goTo(lineOf(ENCODER, 'self.norm(x'), 13);
  await bench.page.mouse.move(400, 760);
  await bench.webview().locator('tr.selected').first().waitFor();
});

await take('captures', { 'net.py': BREAKS }, async bench => {
  await bench.openFile('net.py');
  await bench.goTo(lineOf(BREAKS, 'if x.sum()'), 12);
  await bench.lens(/compile.2.breaks/).waitFor({ timeout: 300_000 });
  await bench.clickUntil('the graph', bench.lens('Compiled graphs'), async () => (await bench.webview().locator('g.cluster').count()) >= 3);
  await bench.goTo(lineOf(BREAKS, 'if x.sum()'), 12);
  await bench.webview().locator('g.node.selected').first().waitFor();
}, { 'fxlens.captures': ['fx', 'export', 'compile'] });
