// Runs the drives, or those that are named: `node drives.mjs [views trust …]`. One process runs them all, so that they share a browser
// and, most of them, an editor. The files in which something failed are run again in a new process: three tries, for the reason that
// tests/conftest.py gives.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { startWarmPython } from './lab/warm.mjs';

const TRIES = 3;
const HERE = import.meta.dirname;
/** They need the shared editor not at all, or once, and come last: it ends where it is not needed for a moment. */
const LAST = ['around', 'folders', 'hostile', 'models', 'packaging', 'page', 'trust'];

/** Runs these files and returns those that have to run again. */
async function run(names) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-drives-'));
  const all = path.join(scratch, 'all.mjs');
  const failures = path.join(scratch, 'failed');
  const files = names.map(name => path.join(HERE, 'drives', `${name}.test.mjs`));
  fs.writeFileSync(all, files.map(file => `import ${JSON.stringify(pathToFileURL(file))};\n`).join(''));
  const reporters = [['spec', 'stdout'], [path.join(HERE, 'lab', 'failed.mjs'), failures]];
  const args = reporters.flatMap(([reporter, to]) => [`--test-reporter=${reporter}`, `--test-reporter-destination=${to}`]);
  try {
    const status = await new Promise(resolve => spawn(process.execPath, [...args, all], { stdio: 'inherit' }).on('exit', resolve));
    if (status === 0) return [];
    const failed = fs.existsSync(failures) ? fs.readFileSync(failures, 'utf8').split('\n') : [];
    const again = names.filter((_, index) => failed.includes(files[index]));
    return failed.includes('end') && again.length ? again : names; // a process that broke off says nothing of those that it did not get to
  } finally {
    fs.rmSync(scratch, { recursive: true });
  }
}

const found = fs.readdirSync(path.join(HERE, 'drives')).map(file => path.basename(file, '.test.mjs')).sort();
const last = name => LAST.includes(name);
let left = process.argv.length > 2 ? process.argv.slice(2) : [...found.filter(name => !last(name)), ...found.filter(last)];
const warm = await startWarmPython();
for (let attempt = 1; left.length && attempt <= TRIES; attempt++) {
  if (attempt > 1) console.log(`== AGAIN: ${left.join(' ')}`);
  left = await run(left);
}
await warm.stop();
process.exit(left.length ? 1 : 0);
