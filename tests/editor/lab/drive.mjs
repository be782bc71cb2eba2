// Drives: what a person does with a folder in VS Code, from begin to end, in steps.
import fs from 'node:fs';
import path from 'node:path';
import { ofAnIdleMachine, plain, startBrowser, until } from './browser.mjs';
import { Kept } from './kept.mjs';
import { startVSCode, workspace } from './vscode.mjs';
import { Workbench } from './workbench.mjs';

export { ofAnIdleMachine, plain, startBrowser, until };

const SETTINGS = '.vscode/settings.json';

/** What is typed is what stands there: help that depends on how fast one types would make the drives depend on it too. */
const ALWAYS = {
  'editor.autoIndent': 'none', 'editor.quickSuggestions': { other: 'off' }, 'editor.autoClosingBrackets': 'never',
  'editor.cursorBlinking': 'solid', // each blink would be a picture to draw while a drive waits
  'fxlens.captures': ['fx'], // the drive of captures asks for the others
  // What one drive did must not show in the next.
  'workbench.commandPalette.history': 0, 'workbench.editor.restoreViewState': false,
};

async function start(vscode = {}, browser) {
  const server = await startVSCode({ ...vscode, settings: { ...ALWAYS, ...vscode.settings } });
  try {
    const window = await startBrowser(browser);
    return { server, window, stop: failed => window.stop(failed).finally(server.stop) };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Runs `act(workbench)` in an editor; on failure keeps a picture and prints what the server has said meanwhile. */
async function within({ server, window }, name, act) {
  const bench = new Workbench(window.page, name);
  const said = server.serverLog().length;
  try {
    await act(bench);
  } catch (error) {
    console.error(server.serverLog().slice(said));
    await bench.screenshot('failure', true).catch(() => {});
    throw error;
  }
}

async function alone(name, files, body, { vscode, browser, prepare = () => {} }) {
  const ws = workspace(files);
  let editor;
  let failed = true;
  try {
    const opened = (await prepare(ws)) ?? ws.folder;
    editor = await start(vscode, browser);
    await within(editor, name, async bench => {
      await bench.open(editor.server, opened);
      await body(bench, ws, editor.server);
    });
    failed = false;
  } finally {
    await editor?.stop(failed);
    await ws.remove();
  }
}

/** The editor that drives share, on a folder that is emptied between them. */
const shared = new Kept(async () => {
  const editor = await start();
  const ws = workspace({ [SETTINGS]: '{}' });
  return { ...editor, ws, drives: 0, stop: failed => editor.stop(failed).finally(ws.remove) };
});

async function together(name, files, body, settings) {
  const editor = await shared.take();
  const { server, ws } = editor;
  let failed = true;
  try {
    await within(editor, name, async bench => {
      if (!editor.drives++) await bench.open(server, ws.folder);
      // The title tells that the settings are read: VS Code can miss the first change of a file.
      const title = `${name} ${editor.drives}`;
      const text = JSON.stringify({ ...settings, 'window.title': title });
      await bench.doUntil('the settings', () => ws.write({ [SETTINGS]: text }), async () => (await bench.page.title()) === title);
      ws.write(files);
      await body(bench, ws, server);
    });
    failed = false;
    await new Workbench(editor.window.page, name).clear().catch(error => {
      console.error(`the next drive starts an editor, since this one could not be cleared: ${error.message}`);
      failed = true;
    });
    for (const left of fs.readdirSync(ws.folder)) if (left !== path.dirname(SETTINGS)) fs.rmSync(ws.file(left), { recursive: true, force: true });
  } finally {
    await shared.give(failed);
  }
}

/**
 * Runs `body(workbench, files, server)` on a folder that holds `files`, in the editor that drives share; `settings` are those of the folder.
 * A drive that names one of `own` gets a fresh editor: `vscode` says how it is started, `browser` its window, and `prepare` completes
 * the folder before anything runs (its answer is opened instead: a `.code-workspace`).
 */
export async function drive(name, files, body, { settings = {}, ...own } = {}) {
  await (Object.keys(own).length ? alone(name, files, body, own) : together(name, files, body, settings));
}

/** A part of a drive, reported as a test of its own; what fails ends the drive, since the rest builds on it. */
export async function step(t, name, body) {
  let failure;
  await t.test(name, async () => {
    try {
      await body();
    } catch (error) {
      failure = error;
      throw error;
    }
  });
  if (failure) throw failure;
}
