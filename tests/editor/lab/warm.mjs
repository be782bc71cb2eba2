// An interpreter whose workers have torch imported already when they start, for drives that are not about their start.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { PYTHON, REPOSITORY, installed } from './vscode.mjs';
import { remove } from './folders.mjs';

/** Starts it; the editors that this process and those below it start take it, until `stop`. */
export async function startWarmPython() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'warm-python-'));
  const libs = path.join(await installed(), 'bundled', 'libs');
  const args = [path.join(REPOSITORY, 'tests/server/warm_python.py'), folder, path.join(libs, 'fxlens'), path.join(libs, 'fxlib')];
  const child = spawn(PYTHON, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise(resolve => child.on('exit', resolve));
  await Promise.race([new Promise(resolve => child.stdout.once('data', resolve)), exited]);
  if (child.exitCode !== null) throw new Error('the warm interpreter did not start');
  process.env.FXLENS_WARM_PYTHON = path.join(folder, 'plain', 'bin', 'python');
  return {
    stop: async () => {
      child.stdin.end();
      await exited;
      await remove(folder);
    },
  };
}
