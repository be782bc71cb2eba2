// Uses VS Code's workbench in a headless Chromium the way a person does, and reads off it what a person sees.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { REPOSITORY, folderUrl, startVSCode, workspace } from './vscode.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const SHOTS = path.join(REPOSITORY, '.artifacts', 'editor');
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--font-render-hinting=none'];
/** How long a state is waited for: it is there in a second on a quiet machine, and on a busy one it must not matter. */
const PATIENCE = Number(process.env.STEP_TIMEOUT ?? 120_000);

/** How often a key or a movement of the mouse that VS Code took no notice of is made again. */
const ATTEMPTS = 15;

/** What is typed is what stands there: help that depends on how fast one types would make the drives depend on it too. */
const TYPING = { 'editor.autoIndent': 'none', 'editor.quickSuggestions': { other: 'off' }, 'editor.autoClosingBrackets': 'never' };

export async function startBrowser({ width = 1400, height = 900, scale = 1 } = {}) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, headless: true, viewport: { width, height }, deviceScaleFactor: scale, args: ARGS,
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(PATIENCE);
  return { page, stop: async () => { await context.close(); fs.rmSync(profile, { recursive: true, force: true }); } };
}

/** VS Code writes no-break spaces where the text has spaces. */
export const plain = text => text.replace(/\u00a0/g, ' ');

/** Waits until `probe` returns something true (or does not throw), and returns it; the last failure is told. */
export async function until(what, probe, timeout = PATIENCE) {
  const deadline = Date.now() + timeout;
  let last;
  for (;;) {
    try {
      const value = await probe();
      if (value) return value;
      last = `got ${JSON.stringify(value)}`;
    } catch (error) {
      last = error.message;
    }
    if (Date.now() > deadline) throw new Error(`waited ${timeout} ms for ${what}: ${last}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

export class Workbench {
  constructor(page, name) {
    this.page = page;
    this.name = name;
    this.shots = 0;
  }

  async screenshot(label) {
    fs.mkdirSync(SHOTS, { recursive: true });
    const number = String(++this.shots).padStart(2, '0');
    await this.page.screenshot({ path: path.join(SHOTS, `${this.name}-${number}-${label.replace(/\W+/g, '-')}.png`) });
  }

  async open(server, folder) {
    await this.page.goto(folderUrl(server, folder));
    await this.page.locator('.explorer-folders-view .monaco-list-row').first().waitFor();
  }

  /** Opens a quick input, fills it in and accepts it; a late change of focus closes such an input, so it is tried again. */
  async quickInput(key, text, ready) {
    const input = this.page.locator('.quick-input-widget input').first();
    for (let attempt = 0; ; attempt++) {
      try {
        await this.page.keyboard.press(key);
        await input.waitFor({ state: 'visible', timeout: 5000 });
        await input.fill(text, { timeout: 2000 });
        if (ready) await ready.waitFor({ timeout: 10_000 });
        await input.press('Enter', { timeout: 2000 });
        return;
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
        await this.page.keyboard.press('Escape');
      }
    }
  }

  async command(title) {
    const row = this.page.locator('.quick-input-list .monaco-list-row').filter({ hasText: title }).first();
    await this.quickInput('F1', `>${title}`, row);
  }

  async openFile(name) {
    const row = this.page.locator('.quick-input-list .monaco-list-row').filter({ hasText: path.basename(name) }).first();
    await this.quickInput('Control+P', name, row);
    await this.page.locator('.tab').filter({ hasText: path.basename(name) }).first().waitFor();
  }

  /** Moves the cursor; lines and columns from 1, as VS Code counts. */
  async goTo(line, column = 1) {
    await this.quickInput('Control+G', `:${line}:${column}`);
    await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
  }

  /**
   * Clicks a line of text until `probe` holds; with time between the clicks, since two in quick succession are a double click, which
   * does something else. The cursor may cover the line, for which Playwright's own click would scroll the line out of sight.
   */
  async clickUntil(what, line, probe) {
    await until(what, async () => {
      const box = await line.boundingBox();
      await this.page.mouse.click(box.x + 40, box.y + box.height / 2);
      return until(what, probe, 5000);
    });
  }

  /** Brings the editor of this tab to the front. */
  async tab(name) {
    const tab = this.page.locator('.tab').filter({ hasText: name }).first();
    await tab.click();
    await this.page.locator('.tab.active').filter({ hasText: name }).first().waitFor();
  }

  /** Notifications that hold the text, on the desk or in the list behind the bell. */
  notification(text) {
    return this.page.locator('.notification-list-item').filter({ hasText: text });
  }

  /** Presses a button of a notification; one that has faded to the bell is brought back. */
  async press(toast, button) {
    const found = toast.getByRole('button', { name: button });
    await until(`the button ${button}`, async () => {
      try {
        await found.first().click({ timeout: 10_000 });
      } catch (error) {
        await this.command('Notifications: Show Notifications');
        throw error;
      }
      return true;
    });
  }

  /** Closes a notification, if it is still there. */
  async dismiss(toast) {
    await toast.first().waitFor();
    await until('the message to be gone', async () => {
      if (!(await toast.count())) return true;
      await toast.first().hover({ timeout: 2000 });
      await toast.first().locator('.codicon-notifications-clear, .codicon-close').first().click({ timeout: 2000 });
      return (await toast.count()) === 0;
    });
  }

  /** Ticks these rows of an open quick pick and no others; what is clicked while the list still moves is put right. */
  async tick(labels) {
    const rows = this.page.locator('.quick-input-list .monaco-list-row');
    const state = () => rows.evaluateAll(all => all.map(row => ({
      text: row.innerText, ticked: row.getAttribute('aria-checked') === 'true' || !!row.querySelector('.checked, input:checked, [aria-checked=true]'),
    })));
    await until(`${labels} to be ticked`, async () => {
      const all = await state();
      const wrong = all.findIndex(({ text, ticked }) => ticked !== labels.some(label => text.includes(label)));
      if (!labels.every(label => all.some(({ text }) => text.includes(label)))) return false; // another list yet
      if (wrong < 0) return true;
      await rows.nth(wrong).click({ timeout: 3000 });
      return false;
    });
  }

  /** Accepts the path that VS Code's simple file dialog proposes. */
  async acceptPath(button) {
    const widget = this.page.locator('.quick-input-widget').filter({ visible: true });
    await until('the proposed path', async () => (await widget.locator('input').first().inputValue()).length > 1);
    const accept = widget.getByRole('button', { name: button });
    await until('the dialog to close', async () => {
      if (!(await widget.count())) return true;
      await accept.click({ timeout: 3000 });
      return (await widget.count()) === 0;
    });
  }

  async save() {
    await this.page.keyboard.press('Control+S');
    await this.page.locator('.tab.active.dirty').waitFor({ state: 'detached' });
  }

  /** The rows of the Problems view of the given source, as text: `message fxlens FX101 [Ln 12, Col 9]`. */
  async problems() {
    const panel = this.page.locator('.markers-panel');
    if (!(await panel.isVisible())) {
      await this.page.keyboard.press('Control+Shift+M');
      await panel.waitFor();
    }
    const rows = await panel.locator('.monaco-list-row').allInnerTexts();
    return rows.map(row => plain(row).replace(/\s+/g, ' ').trim()).filter(row => /\[Ln \d+, Col \d+\]/.test(row));
  }

  async problem(pattern) {
    return until(`a problem like ${pattern}`, async () => (await this.problems()).find(row => pattern.test(row)));
  }

  /**
   * The underlined stretches of the visible editor as [{line, text}]: what stands in the text right above each squiggle.
   * `kind` is error, warning, info or hint.
   */
  async squiggles(kind = 'error') {
    return this.page.evaluate(kind => {
      const editor = [...document.querySelectorAll('.editor-instance')].find(e => e.offsetParent);
      const lines = [...editor.querySelectorAll('.view-lines > .view-line')].map(line => ({ line, box: line.getBoundingClientRect() }));
      const numbers = [...editor.querySelectorAll('.margin-view-overlays .line-numbers')].map(n => ({ n, box: n.getBoundingClientRect() }));
      return [...editor.querySelectorAll(`.cdr.squiggly-${kind}`)].map(squiggle => {
        const box = squiggle.getBoundingClientRect();
        const middle = box.top + box.height / 2;
        const row = lines.find(({ box }) => box.top <= middle && middle <= box.bottom);
        if (!row) return null;
        let text = '';
        const walker = document.createTreeWalker(row.line, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
          for (let i = 0; i < node.length; i++) {
            const range = document.createRange();
            range.setStart(node, i);
            range.setEnd(node, i + 1);
            const at = range.getBoundingClientRect();
            const centre = at.left + at.width / 2;
            if (box.left <= centre && centre <= box.right) text += node.data[i];
          }
        }
        const number = numbers.find(({ box: b }) => b.top <= middle && middle <= b.bottom);
        return { line: Number(number?.n.textContent), text: text.replace(/\u00a0/g, ' ') };
      }).filter(Boolean);
    }, kind);
  }

  async squiggle(line, text, kind = 'error') {
    return until(`a squiggle under «${text}» in line ${line}`, async () => {
      const all = await this.squiggles(kind);
      assert.ok(all.some(s => s.line === line && s.text === text), `there are ${JSON.stringify(all)}`);
      return true;
    });
  }

  async noSquiggle(line, kind = 'error') {
    return until(`no squiggle in line ${line}`, async () => !(await this.squiggles(kind)).some(s => s.line === line));
  }

  /** Rests the mouse on the first `text` of a line of any editor in sight and returns the hover that matches. */
  async hover(line, text, pattern) {
    const find = () => until(`«${text}» in line ${line}`, () => this.page.evaluate(([line, text]) => {
      const editors = [...document.querySelectorAll('.editor-instance')].filter(e => e.offsetParent);
      const row = editors.map(editor => {
        const number = [...editor.querySelectorAll('.margin-view-overlays .line-numbers')].find(n => Number(n.textContent) === line);
        const top = number?.getBoundingClientRect().top;
        return [...editor.querySelectorAll('.view-lines > .view-line')].find(l => Math.abs(l.getBoundingClientRect().top - top) < 3);
      }).find(row => row?.textContent.replace(/\u00a0/g, ' ').includes(text));
      const at = row ? row.textContent.replace(/\u00a0/g, ' ').indexOf(text) : -1;
      if (at < 0) return null;
      const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
      let offset = at + Math.floor(text.length / 2);
      for (let node = walker.nextNode(); node; offset -= node.length, node = walker.nextNode()) {
        if (offset >= node.length) continue;
        const range = document.createRange();
        range.setStart(node, offset);
        range.setEnd(node, offset + 1);
        const box = range.getBoundingClientRect();
        return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
      }
      return null;
    }, [line, text]));
    const hover = this.page.locator('.monaco-hover:not(.hidden)').filter({ hasText: pattern }).first();
    for (let attempt = 0; ; attempt++) {
      const place = await find(); // again each time: lenses that come later move the lines
      await this.page.mouse.move(place.x - 40, place.y + 60);
      await this.page.mouse.move(place.x, place.y, { steps: 3 });
      try {
        await hover.waitFor({ timeout: 5000 });
        return plain(await hover.innerText());
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Opens the lightbulb's menu where the cursor is and returns the titles in it. */
  async lightbulb() {
    const items = this.page.locator('.action-widget .monaco-list-row.action');
    for (let attempt = 0; ; attempt++) {
      await this.page.keyboard.press('Control+Period'); // the key is lost when it lands before the editor has the focus
      try {
        await items.first().waitFor({ timeout: 3000 });
        return (await items.allInnerTexts()).map(text => plain(text).trim());
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Walks down the open lightbulb menu to the entry, and takes it. */
  async choose(pattern) {
    const rows = this.page.locator('.action-widget .monaco-list-row.action');
    const focused = this.page.locator('.action-widget .monaco-list-row.action.focused');
    for (let left = await rows.count(); left > 0; left--) {
      if (pattern.test(plain(await focused.innerText()))) {
        await this.page.keyboard.press('Enter');
        return;
      }
      await this.page.keyboard.press('ArrowDown');
    }
    throw new Error(`no entry like ${pattern}`);
  }

  /** The text of the status bar item of FX Lens. */
  async status() {
    const items = await this.page.locator('.statusbar-item').filter({ hasText: 'FX Lens' }).allInnerTexts();
    return plain(items[0] ?? '').replace(/\s+/g, ' ').trim();
  }

  async statusItem(pattern) {
    return until(`a status item like ${pattern}`, async () => pattern.test(await this.status()) && this.status());
  }

  async waitForText(pattern) {
    return until(`text like ${pattern}`, async () =>
      pattern.test(plain((await this.page.locator('.editor-instance .view-lines').first().innerText()))));
  }

  /** The (doubly nested) frame of the visible webview; one left behind another tab can keep its own frame for a while. */
  webview() {
    return this.page.locator('iframe.webview.ready').filter({ visible: true }).last().contentFrame().frameLocator('iframe#active-frame');
  }

  /** Messages that VS Code shows to the user as errors. */
  async errors() {
    return (await this.page.locator('.notification-toast .codicon-error').count()) ?
      this.page.locator('.notification-toast').allInnerTexts() : [];
  }
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

/** Runs `body(workbench, files, server)` in a fresh VS Code on a fresh folder; on failure keeps a picture and prints the server's log. */
export async function drive(name, files, body, { vscode = {}, browser = {} } = {}) {
  const ws = workspace(files);
  const server = await startVSCode({ ...vscode, settings: { ...TYPING, ...vscode.settings } });
  const window = await startBrowser(browser);
  const bench = new Workbench(window.page, name);
  try {
    await bench.open(server, ws.folder);
    await body(bench, ws, server);
  } catch (error) {
    await bench.screenshot('failure');
    console.error(server.serverLog());
    throw error;
  } finally {
    await window.stop();
    await server.stop();
    ws.remove();
  }
}
