// Starts the real VS Code server (from the code-server package, without its wrapper), with profiles of its own.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { remove } from './folders.mjs';

export const REPOSITORY = path.resolve(import.meta.dirname, '../../..');
export const EXTENSION = path.join(REPOSITORY, 'vscode-extension');
export const VSIX = process.env.FXLENS_VSIX ?? path.join(EXTENSION, 'fx-lens.vsix');
export const PYTHON = process.env.FXLENS_PYTHON ?? path.join(REPOSITORY, '.venv/bin/python');
const MAIN = path.join(import.meta.dirname, '../node_modules/code-server/lib/vscode/out/server-main.js');

const QUIET = {
  'files.autoSave': 'off', // in a browser VS Code saves a second after the last key
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none', 'workbench.enableExperiments': false, 'workbench.tips.enabled': false,
  'telemetry.telemetryLevel': 'off', 'update.mode': 'none', 'extensions.autoUpdate': false, 'extensions.autoCheckUpdates': false,
  'extensions.ignoreRecommendations': true, 'npm.fetchOnlinePackageInfo': false, 'git.enabled': false,
  'editor.minimap.enabled': false, 'editor.accessibilitySupport': 'off', 'chat.commandCenter.enabled': false,
  'fxlens.scope': 'all', // a drive that is about scope sets another
  'chat.disableAIFeatures': true, 'workbench.secondarySideBar.defaultVisibility': 'hidden', 'workbench.layoutControl.enabled': false,
};

/** Environment of the server: no variable of an outer VS Code or Python environment leaks in. */
function environment(extra) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(VSCODE_|VIRTUAL_ENV|PYTHON)/.test(name));
  return { ...Object.fromEntries(kept), ...extra };
}

function writeSettings(root, settings) {
  for (const [folder, values] of [['User', { ...QUIET, ...settings }], ['Machine', settings]]) {
    fs.mkdirSync(path.join(root, 'user', folder), { recursive: true });
    fs.writeFileSync(path.join(root, 'user', folder, 'settings.json'), JSON.stringify(values, null, 2));
  }
}

const folders = root => [
  ...['extensions-dir', 'server-data-dir', 'user-data-dir'].flatMap(name => [`--${name}`, path.join(root, name.split('-')[0])]),
  '--accept-server-license-terms',
];

function install(vsix, dirs, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [MAIN, '--install-extension', vsix, '--force', ...dirs], { env });
    let output = '';
    child.stdout.on('data', data => { output += data; });
    child.stderr.on('data', data => { output += data; });
    child.on('close', () => (/successfully installed/.test(output) ? resolve() : reject(new Error(`installing ${vsix}: ${output}`))));
  });
}

/**
 * The extension as VS Code installed it once, since to install it takes two seconds, and as it is when it has run once: Python
 * compiles the 100,000 lines of it then, which takes longer.
 */
export async function installed() {
  const env = environment({});
  const hash = createHash('sha256').update(fs.readFileSync(VSIX)).digest('hex').slice(0, 16);
  const kept = path.join(REPOSITORY, '.artifacts', 'extensions', hash);
  if (!fs.existsSync(kept)) {
    const made = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-install-'));
    try {
      await install(VSIX, folders(made), env);
      fs.rmSync(path.dirname(kept), { recursive: true, force: true }); // those of other builds
      fs.mkdirSync(path.dirname(kept), { recursive: true });
      fs.cpSync(path.join(made, 'extensions'), `${kept}.new`, { recursive: true });
      fs.renameSync(`${kept}.new`, kept);
    } finally {
      await remove(made);
    }
  }
  const [name] = fs.readdirSync(kept).filter(each => each.startsWith('fxlens.'));
  const folder = path.join(kept, name);
  execFileSync(PYTHON, ['-m', 'compileall', '-q', path.join(folder, 'bundled', 'libs')]);
  return folder;
}

/** VS Code finds the link: beside the absolute path of an extension it notes the one within its folder of extensions. */
async function link(root) {
  const folder = await installed();
  const extensions = path.join(root, 'extensions');
  fs.mkdirSync(extensions, { recursive: true });
  fs.rmSync(path.join(extensions, path.basename(folder)), { recursive: true, force: true });
  fs.symlinkSync(folder, path.join(extensions, path.basename(folder)));
  fs.copyFileSync(path.join(path.dirname(folder), 'extensions.json'), path.join(extensions, 'extensions.json'));
}

/** The address of the server once it answers; the port that it took is in its log. */
async function answers(child, log) {
  const deadline = Date.now() + 180_000;
  for (;;) {
    try {
      const [, port] = /listening on (\d+)/.exec(fs.readFileSync(log, 'utf8'));
      const authority = `127.0.0.1:${port}`;
      if ((await fetch(`http://${authority}/`)).ok) return authority;
    } catch { /* not listening yet */ }
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`VS Code did not start:\n${fs.readFileSync(log, 'utf8')}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

/** python3, with its standard error kept: this VS Code has no native module to write the log channels to disk with. */
function loggingPython(root) {
  const file = path.join(root, 'python-with-log');
  fs.writeFileSync(file, `#!/bin/sh\nexec python3 "$@" 2>>"${path.join(root, 'fxlens.log')}"\n`, { mode: 0o755 });
  return file;
}

/**
 * A running VS Code. `root` keeps its profile when given, else it lives in a temporary folder that stop() removes.
 * `extensions` are .vsix files that VS Code installs; without it there is FX Lens alone. `settings` go to the user's and the machine's settings.
 */
export async function startVSCode({ root, port = 0, settings = {}, extensions, env = {}, args = [] } = {}) {
  const temporary = !root;
  root ??= fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-vscode-'));
  const dirs = folders(root);
  fs.mkdirSync(root, { recursive: true });
  writeSettings(root, { 'fxlens.python': process.env.FXLENS_WARM_PYTHON ?? PYTHON, 'fxlens.serverPython': loggingPython(root), ...settings });
  const clean = environment(env);
  if (extensions) for (const vsix of extensions) await install(vsix, dirs, clean);
  else await link(root);

  const log = path.join(root, 'server.log');
  const out = fs.openSync(log, 'w');
  const child = spawn(process.execPath,
    [MAIN, '--host', '127.0.0.1', '--port', String(port), '--without-connection-token', '--telemetry-level', 'off', ...args, ...dirs],
    { env: clean, stdio: ['ignore', out, out] });
  fs.closeSync(out);
  const exited = new Promise(resolve => child.on('exit', resolve));
  const authority = await answers(child, log).catch(error => { child.kill('SIGKILL'); throw error; });

  const stop = async () => {
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), 5000);
    await exited;
    clearTimeout(killer);
    if (temporary && !process.env.KEEP) await remove(root);
  };
  /** What the language server wrote to its standard error. */
  const serverLog = () => {
    const file = path.join(root, 'fxlens.log');
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
  };
  return { url: `http://${authority}/`, authority, root, pid: child.pid, exited, stop, serverLog };
}

/** An extension that stands in for another one: `commands` are those of its manifest, `main` its code. */
export function standIn({ name, publisher, commands }, main) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-stand-in-'));
  const manifest = {
    name, publisher, version: '0.0.1', engines: { vscode: '^1.91.0' }, main: './main.js', license: 'MIT', description: 'A stand-in',
    activationEvents: [], contributes: { commands }, repository: { type: 'git', url: 'https://example.invalid/x.git' },
  };
  const files = { 'package.json': JSON.stringify(manifest), 'README.md': 'A stand-in.', LICENSE: 'MIT', 'main.js': main };
  for (const [file, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, file), text);
  const vsix = path.join(folder, `${name}.vsix`);
  execFileSync(path.join(EXTENSION, 'node_modules/.bin/vsce'), ['package', '--no-dependencies', '-o', vsix], { cwd: folder, stdio: 'ignore' });
  return { vsix, remove: () => fs.rmSync(folder, { recursive: true }) };
}

/** The address that opens a folder or a `.code-workspace`; `payload` holds pairs that VS Code's web start-up understands. */
export function folderUrl(server, folder, payload = []) {
  const url = new URL(server.url);
  url.searchParams.set(folder.endsWith('.code-workspace') ? 'workspace' : 'folder', folder);
  if (payload.length) url.searchParams.set('payload', JSON.stringify(payload));
  return String(url);
}

/** A fresh folder holding `files` (name to text), removed by `remove`; `write` adds others. */
export function workspace(files) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-ws-'));
  const file = name => path.join(folder, name);
  const write = more => {
    for (const [name, text] of Object.entries(more)) {
      fs.mkdirSync(path.dirname(file(name)), { recursive: true });
      fs.writeFileSync(file(name), text);
    }
  };
  write(files);
  return { folder, file, write, remove: () => remove(folder) };
}
