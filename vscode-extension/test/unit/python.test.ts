/** Which interpreter is chosen, and what may not be touched before trust. */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isNewEnough, onInterpreterChange, serverPython, workerPython } from '../../src/host/python';
import { expand } from '../../src/host/settings';
import { Disposable, Uri, state } from './vscode';

const logger = { warn: vi.fn() } as any;
let folder: string;

/** An executable that says it is Python `version`, and leaves a mark when it is run. */
function fakePython(file: string, version: string): string {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `#!/bin/sh\ntouch "${file}.ran"\necho ${version}\n`, { mode: 0o755 });
  return file;
}

function pythonExtension(executable: string | undefined) {
  const activate = vi.fn(async () => api);
  const api = {
    environments: {
      getActiveEnvironmentPath: (scope: any) => ({ path: `${scope?.fsPath}|env` }),
      resolveEnvironment: async () => executable && { executable: { uri: Uri.file(executable) } },
      onDidChangeActiveEnvironmentPath: vi.fn(() => new Disposable(() => {})),
    },
  };
  state.extensions['ms-python.python'] = { isActive: false, exports: api, activate };
  return { api, activate };
}

beforeEach(() => {
  state.reset();
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-unit-'));
  state.folders = [{ uri: Uri.file(folder) }];
});
afterEach(() => {
  fs.rmSync(folder, { recursive: true });
  vi.unstubAllEnvs();
});

describe('the interpreter of the models', () => {
  it('is the setting before all else', async () => {
    pythonExtension('/elsewhere/python');
    state.settings['fxlens.python'] = '${workspaceFolder}/env/bin/python';
    expect((await workerPython(Uri.file(`${folder}/a.py`) as any, logger)).python).toBe(`${folder}/env/bin/python`);
  });

  it('is the one chosen in the Python extension, which is activated for it', async () => {
    const { activate } = pythonExtension('/chosen/python');
    fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect((await workerPython(Uri.file(`${folder}/a.py`) as any, logger)).python).toBe('/chosen/python');
    expect(activate).toHaveBeenCalledOnce();
  });

  it("is the folder's .venv where the Python extension names none", async () => {
    pythonExtension(undefined);
    const own = fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect((await workerPython(Uri.file(`${folder}/a.py`) as any, logger)).python).toBe(own);
  });

  it('is that of the path where there is nothing else', async () => {
    vi.stubEnv('PATH', `${folder}/bin:/usr/bin:/bin`);
    fakePython(`${folder}/bin/python3`, '3 11');
    expect((await workerPython(undefined, logger)).python).toBe('python3');
  });

  it('goes on when the Python extension fails, and says so in the log', async () => {
    state.extensions['ms-python.python'] = { isActive: false, activate: async () => { throw new Error('broken'); } };
    const own = fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect((await workerPython(undefined, logger)).python).toBe(own);
    expect(logger.warn).toHaveBeenCalledWith(expect.stringContaining('broken'));
  });

  it('is none before trust, whatever the settings and the folder say', async () => {
    state.trusted = false;
    const { activate } = pythonExtension('/chosen/python');
    state.settings['fxlens.python'] = fakePython(`${folder}/evil`, '3 12');
    expect((await workerPython(undefined, logger)).python).toBe('');
    expect(activate).not.toHaveBeenCalled();
    expect(fs.existsSync(`${folder}/evil.ran`)).toBe(false);
  });

  it('is asked for again when another one is chosen', async () => {
    const { api } = pythonExtension('/chosen/python');
    const changed = vi.fn();
    await onInterpreterChange(changed);
    expect(api.environments.onDidChangeActiveEnvironmentPath).toHaveBeenCalledWith(changed);
  });
});

describe('the interpreter of the server', () => {
  it('is that of the path, not that of the models', async () => {
    vi.stubEnv('PATH', `${folder}/bin:/usr/bin:/bin`);
    fakePython(`${folder}/bin/python3`, '3 10');
    fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect(await serverPython(logger)).toBe('python3');
  });

  it("is that of the models when the path's is too old", async () => {
    vi.stubEnv('PATH', `${folder}/bin`);
    for (const name of ['python3', 'python']) fakePython(`${folder}/bin/${name}`, '3 8');
    fs.symlinkSync('/bin/touch', `${folder}/bin/touch`);
    const own = fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect(await serverPython(logger)).toBe(own);
  });

  it('is none when there is none, and none of the workspace before trust', async () => {
    state.trusted = false;
    vi.stubEnv('PATH', `${folder}/empty`);
    const own = fakePython(`${folder}/.venv/bin/python`, '3 12');
    expect(await serverPython(logger)).toBeUndefined();
    expect(fs.existsSync(`${own}.ran`)).toBe(false);
  });

  it.each([['3 10', true], ['3 13', true], ['4 0', true], ['3 9', false], ['2 7', false], ['oops', false]])(
    'may say of itself «%s»: %s', async (version, answer) => {
      expect(await isNewEnough(fakePython(`${folder}/python`, version))).toBe(answer);
    });
});

describe('paths in settings', () => {
  it('may name the folder and the home', () => {
    vi.stubEnv('HOME', '/home/someone');
    expect(expand(' ~/env/bin/python ')).toBe('/home/someone/env/bin/python');
    expect(expand('${userHome}/p')).toBe('/home/someone/p');
    expect(expand('${workspaceFolder}/p', Uri.file(`${folder}/sub/a.py`) as any)).toBe(`${folder}/p`);
    expect(expand('a~b')).toBe('a~b');
  });
});
