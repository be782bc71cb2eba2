/**
 * Finds interpreters: the one that has the user's torch, for the worker, and one that runs the server.
 * Nothing in the workspace is read or run before it is trusted.
 */
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Logger } from './logger';
import { readSettings } from './settings';

const OLDEST: [number, number] = [3, 10];
const WINDOWS = process.platform === 'win32';
const ON_PATH = WINDOWS ? ['python', 'py'] : ['python3', 'python'];
/** Environments of a folder, in order of preference, and the interpreter of one. */
const ENVIRONMENTS = ['.venv', 'venv'];
const EXECUTABLE = WINDOWS ? 'Scripts/python.exe' : 'bin/python';
/** How long creating an environment may take. */
const MAKING_MS = 60_000;

/** The part of the Python extension's API that is used here. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>('ms-python.python');
  if (!extension) return undefined;
  const api = extension.isActive ? extension.exports : await extension.activate();
  return api?.environments ? api : undefined;
}

/** Calls `changed` when another interpreter is chosen in the Python extension. */
export async function onInterpreterChange(changed: () => void): Promise<vscode.Disposable> {
  const api = await pythonApi();
  return api?.environments.onDidChangeActiveEnvironmentPath(changed) ?? new vscode.Disposable(() => {});
}

/** Calls `changed` when an environment is created in a workspace folder, or deleted. */
export function onEnvironmentMade(changed: () => void): vscode.Disposable {
  // Files in a new folder are not always reported, so a new folder is watched itself.
  const made = `{${ENVIRONMENTS.flatMap(name => [name, `${name}/pyvenv.cfg`, `${name}/${EXECUTABLE}`]).join(',')}}`;
  const waiting = new Set<NodeJS.Timeout>();
  const watchers = (vscode.workspace.workspaceFolders ?? []).map(folder => {
    const watcher = vscode.workspace.createFileSystemWatcher(new vscode.RelativePattern(folder, made), false, true, false);
    watcher.onDidCreate(() => {
      const until = Date.now() + MAKING_MS;
      const timer = setInterval(() => {
        const found = fromFolder(folder.uri);
        if (!found && Date.now() < until) return;
        clearInterval(timer);
        waiting.delete(timer);
        if (found) changed();
      }, 500);
      waiting.add(timer);
    });
    watcher.onDidDelete(changed);
    return watcher;
  });
  return new vscode.Disposable(() => {
    watchers.forEach(each => each.dispose());
    waiting.forEach(clearInterval);
  });
}

async function fromPythonExtension(scope?: vscode.Uri): Promise<string | undefined> {
  const api = await pythonApi();
  if (!api) return undefined;
  const active = api.environments.getActiveEnvironmentPath(scope);
  const resolved = await api.environments.resolveEnvironment(active);
  return resolved?.executable.uri?.fsPath;
}

function fromFolder(scope?: vscode.Uri): Interpreter | undefined {
  const folder = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
  if (!folder) return undefined;
  const candidates = ENVIRONMENTS.map(name => ({ python: path.join(folder.uri.fsPath, name, EXECUTABLE), pythonFrom: `the ${name} of the folder` }));
  return candidates.find(({ python }) => fs.existsSync(python));
}

/** An interpreter for models, '' when none may be used, and the reason in a few words. */
export interface Interpreter {
  python: string;
  pythonFrom: string;
}

/** The interpreter of the models of `scope`: from the setting, the Python extension, the folder's .venv, or the path. */
export async function workerPython(scope: vscode.Uri | undefined, logger: Logger): Promise<Interpreter> {
  if (!vscode.workspace.isTrusted) return { python: '', pythonFrom: '' };
  const setting = readSettings(scope).python;
  if (setting) return { python: setting, pythonFrom: 'the setting fxlens.python' };
  try {
    const chosen = await fromPythonExtension(scope);
    if (chosen) return { python: chosen, pythonFrom: 'chosen in the Python extension' };
  } catch (error) {
    logger.warn(`The Python extension gave no interpreter: ${String(error)}`);
  }
  const found = fromFolder(scope) ?? { python: await findOnPath(), pythonFrom: 'the first on the path' };
  return found.python ? { ...found, python: found.python } : { python: '', pythonFrom: '' };
}

/** An interpreter new enough for the server, or undefined. */
export async function serverPython(logger: Logger): Promise<string | undefined> {
  const setting = readSettings().serverPython;
  if (setting) return setting;
  const found = await findOnPath();
  if (found) return found;
  const { python } = await workerPython(vscode.workspace.workspaceFolders?.[0]?.uri, logger);
  return python && (await isNewEnough(python)) ? python : undefined;
}

async function findOnPath(): Promise<string | undefined> {
  for (const name of ON_PATH) if (await isNewEnough(name)) return name;
  return undefined;
}

/** Asks the interpreter for its version, in a folder without user modules, and without the user's path. */
export function isNewEnough(python: string): Promise<boolean> {
  const code = 'import sys; print(*sys.version_info[:2])';
  return new Promise(resolve => {
    execFile(python, ['-I', '-c', code], { cwd: os.tmpdir(), timeout: 10_000 }, (error, stdout) => {
      const [major, minor] = stdout.trim().split(' ').map(Number);
      resolve(!error && (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])));
    });
  });
}
