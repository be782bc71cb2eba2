/**
 * From the last key to a changed squiggle on the page, in the real VS Code, with the graph and the generated forward open.
 *
 *     make vsix && node benchmarks/editor_loop.mjs [--edits 30] [--json FILE]
 *
 * For each model a digit in the forward is exchanged by one key, which makes a problem come or go. Both ends are taken within the
 * page: the key as it arrives there, and the first frame after the squiggle is drawn or gone. The settings are the user's defaults,
 * the debounce among them. Between edits everything comes to rest. The second half of the runs has a process beside it that keeps
 * one core busy. Times in milliseconds.
 */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { REPOSITORY } from '../tests/editor/lab/vscode.mjs';
import { drive, until } from '../tests/editor/lab/drive.mjs';

const MODELS = { 'ResNet-50': ['resnet50.py', 'ResNet50'], Transformer: ['transformer.py', 'TransformerEncoder'] };
const REST_MS = 1200;
const LIMIT_MS = 20_000;

const { values: options } = parseArgs({ options: { edits: { type: 'string', default: '30' }, json: { type: 'string' } } });

/** The example with a line more in the forward of its last model, and the place after its digit: a problem for 0, none for 1. */
function prepared(name) {
  const lines = fs.readFileSync(path.join(REPOSITORY, 'examples', name), 'utf8').split('\n');
  const forward = lines.findLastIndex(line => /def forward\(self, \w+/.test(line));
  const argument = /self, (\w+)/.exec(lines[forward])[1];
  const before = '        gate = 1';
  lines.splice(forward + 1, 0, `${before} or bool(${argument}.sum())`);
  return { text: lines.join('\n'), line: forward + 2, column: before.length + 1 };
}

/** In the page: notes when a key arrives, and the first frame in which there are squiggles where there were none, or the reverse. */
function install() {
  const any = () => [...document.querySelectorAll('.editor-instance .cdr.squiggly-error')].some(each => each.offsetParent);
  const loop = window.fxlensLoop = { key: 0, drawn: 0, before: any() };
  window.addEventListener('keydown', () => Object.assign(loop, { key: performance.now(), drawn: 0, before: any() }), true);
  new MutationObserver(() => {
    if (loop.key && !loop.drawn && any() !== loop.before) requestAnimationFrame(() => { loop.drawn ||= performance.now(); });
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
}

async function edits(bench, count) {
  const times = [];
  for (let number = 0; number < count; number++) {
    await bench.page.keyboard.press('Shift+ArrowLeft');
    await new Promise(resolve => setTimeout(resolve, REST_MS));
    await bench.page.keyboard.press(number % 2 ? '1' : '0');
    const took = await until('the squiggle to change', () => bench.page.evaluate(() => window.fxlensLoop.drawn && window.fxlensLoop.drawn - window.fxlensLoop.key), LIMIT_MS);
    times.push(took);
  }
  return times.slice(2); // the first one of each kind warms up
}

async function measured(label, [file, model], count) {
  const { text, line, column } = prepared(file);
  const found = {};
  await drive(`editor-loop-${file}`, { [file]: text }, async bench => {
    await bench.openFile(file);
    await bench.lens('nodes').waitFor();
    await bench.command('FX Lens: Show Graph');
    await bench.webview().locator('g.node').first().waitFor();
    await bench.tab(file);
    await bench.goTo(line, column);
    await bench.command('FX Lens: Show Generated Forward');
    await bench.page.locator('.tab').filter({ hasText: `${model}.forward.py` }).waitFor();
    await bench.tab(file);
    await bench.page.evaluate(install);
    found.quiet = await edits(bench, count);
    const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
    try {
      found.busy = await edits(bench, count);
    } finally {
      busy.kill('SIGKILL');
    }
    await bench.screenshot('end');
  }, { vscode: { settings: { 'fxlens.captures': [] } } });
  return { model: label, ...found };
}

const percentile = (times, part) => [...times].sort((one, other) => one - other)[Math.min(times.length - 1, Math.floor(times.length * part))];

const results = [];
console.log(`${os.availableParallelism()} cores, load ${os.loadavg()[0].toFixed(2)}, ${options.edits} edits\n`);
console.log('| model | quiet p50 | quiet p95 | one core busy p50 | one core busy p95 |\n|---|---|---|---|---|');
for (const [label, model] of Object.entries(MODELS)) {
  const result = await measured(label, model, Number(options.edits) + 2);
  results.push(result);
  const cells = ['quiet', 'busy'].flatMap(kind => [0.5, 0.95].map(part => percentile(result[kind], part).toFixed(0)));
  console.log(`| ${label} | ${cells.join(' | ')} |`);
}
if (options.json) fs.writeFileSync(options.json, JSON.stringify({ cores: os.availableParallelism(), results }, null, 2));
