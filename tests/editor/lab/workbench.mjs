// Uses VS Code's workbench the way a person does, and reads off it what a person sees.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { plain, until } from './browser.mjs';
import { REPOSITORY, folderUrl } from './vscode.mjs';

const SHOTS = path.join(REPOSITORY, '.artifacts', 'editor');
/** Whether each step leaves a picture there. To draw and compress one takes a third of a second of the processor, and there are a hundred. */
const EVERY = process.env.FXLENS_PICTURES === '1';
/** How long what a click or a key should bring is waited for before it is made again. */
const ANSWER = 10_000;

/** How often a key or a movement of the mouse that VS Code took no notice of is made again. */
const ATTEMPTS = 15;

/** Has a page stand still: to draw what turns while a drive waits took a tenth of all its processor time. */
function still() {
  if (window !== window.top) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('*, *::before, *::after { animation: none !important; transition-duration: 0s !important; }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

export class Workbench {
  constructor(page, name) {
    this.page = page;
    this.name = name;
    this.shots = 0;
  }

  /** A picture for who looks into a drive; what failed leaves one always. */
  async screenshot(label, always = EVERY) {
    if (!always) return;
    fs.mkdirSync(SHOTS, { recursive: true });
    const number = String(++this.shots).padStart(2, '0');
    await this.page.screenshot({ path: path.join(SHOTS, `${this.name}-${number}-${label.replace(/\W+/g, '-')}.png`) });
  }

  /** Opens a folder or a `.code-workspace`; of the latter VS Code in a browser now and then finds no folders at its first start. */
  async open(server, folder) {
    await this.page.addInitScript(still);
    await until('the files', async () => {
      await this.page.goto(folderUrl(server, folder));
      await this.page.locator('.explorer-folders-view .monaco-list-row').first().waitFor({ timeout: 40_000 });
      return true;
    });
  }

  /** The row of a quick input's list that Enter takes, when its label is this, or this and one of `more`. */
  focusedRow(label, more) {
    const forms = [`=${JSON.stringify(label)}`, ...more.map(after => `^=${JSON.stringify(label + after)}`)];
    return this.page.locator(`.quick-input-list .monaco-list-row.focused:is(${forms.map(form => `[aria-label${form}]`)})`);
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

  /** Runs a command of the palette, whose list follows the typing a moment later: Enter waits until it would take this one. */
  async command(title) {
    await this.quickInput('F1', `>${title}`, this.focusedRow(title, [',', '…', '...', ' (']));
    // What comes next may be a list too, and its rows must not be looked for among the palette's.
    const palette = this.page.locator('.quick-input-widget').filter({ visible: true }).locator('input').first();
    await until('the palette to close', async () => !(await palette.count()) || !(await palette.inputValue({ timeout: 1000 })).startsWith('>'));
  }

  async openFile(name) {
    const file = path.basename(name);
    await this.quickInput('Control+P', name, this.focusedRow(file, [',', ' ']));
    await this.activeTab(file).first().waitFor();
  }

  /** What the status bar says of the cursor: `Ln 12, Col 9 (4 selected)`. */
  async position() {
    return this.page.locator('.statusbar-item').filter({ hasText: /Ln \d+/ }).innerText({ timeout: 5000 });
  }

  /** Moves the cursor; lines and columns from 1, as VS Code counts. */
  async goTo(line, column = 1) {
    await until(`the cursor in line ${line}`, async () => {
      await this.quickInput('Control+G', `:${line}:${column}`);
      await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden', timeout: 10_000 });
      return until('the line', async () => (await this.position()).startsWith(`Ln ${line},`), 5000);
    });
  }

  /** Does `act` until `probe` holds: once on a quiet machine, again where VS Code took no notice. */
  async doUntil(what, act, probe) {
    await until(what, async () => {
      if (await Promise.resolve().then(probe).catch(() => false)) return true;
      await act();
      return until(what, probe, ANSWER);
    });
  }

  /** Clicks until `probe` holds; with time between the clicks, since two in quick succession are a double click, which does something else. */
  async clickUntil(what, target, probe) {
    await this.doUntil(what, () => target.click({ timeout: ANSWER }), probe);
  }

  /** Clicks until there is a tab of this name. */
  async clickForTab(target, name) {
    await this.clickUntil(`the tab ${name}`, target, async () => (await this.page.locator('.tab').filter({ hasText: name }).count()) > 0);
  }

  /** A lens in sight whose line of lenses matches `among` (that of one class, where there are several). */
  lens(text, among = /./) {
    return this.page.locator('.codelens-decoration').filter({ hasText: among, visible: true }).locator('a').filter({ hasText: text }).first();
  }

  /** The tab of the active editor, when it has this name; each group of editors has one that is in front, too. */
  activeTab(name) {
    return this.page.locator('.editor-group-container.active .tab.active').filter({ hasText: name });
  }

  /** Brings the editor of this tab to the front. */
  async tab(name) {
    const tab = this.page.locator('.tab').filter({ hasText: name }).first();
    await tab.click();
    await this.activeTab(name).first().waitFor();
  }

  /** Notifications that hold the text, on the desk or in the list behind the bell. */
  notification(text) {
    return this.page.locator('.notification-list-item').filter({ hasText: text });
  }

  /** Waits for a notification and returns its text; one that has faded to the bell is brought back. */
  async told(text) {
    const found = this.notification(text).filter({ visible: true }).first();
    return until(`the message ${text}`, async () => {
      try {
        return plain(await found.innerText({ timeout: 15_000 }));
      } catch (error) {
        await this.command('Notifications: Show Notifications');
        throw error;
      }
    });
  }

  /** Presses a button of a notification. */
  async press(text, button) {
    await until(`the button ${button}`, async () => {
      await this.told(text);
      await this.notification(text).getByRole('button', { name: button }).first().click({ timeout: ANSWER });
      return true;
    });
  }

  /** Waits for a notification and closes it. */
  async dismiss(text) {
    const all = this.notification(text);
    await this.told(text);
    await until('the message to be gone', async () => {
      if (!(await all.count())) return true;
      await all.first().hover({ timeout: 2000 });
      await all.first().locator('.codicon-notifications-clear, .codicon-close').first().click({ timeout: 2000 });
      return until('no message', async () => (await all.count()) === 0, 3000);
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
      const before = all[wrong].ticked;
      await until('the tick', async () => (await state())[wrong]?.ticked !== before, 3000);
      return false;
    });
  }

  /** Accepts the path that VS Code's simple file dialog proposes, once it is all there. */
  async acceptPath(button, name) {
    const widget = this.page.locator('.quick-input-widget').filter({ visible: true });
    await until(`the proposed path of ${name}`, async () => (await widget.locator('input').first().inputValue({ timeout: 5000 })).replace(/\/$/, '').endsWith(name));
    await this.clickUntil('the dialog to close', widget.getByRole('button', { name: button }), async () => !(await widget.count()));
  }

  async save() {
    await this.page.keyboard.press('Control+S');
    await this.page.locator('.tab.active.dirty').waitFor({ state: 'detached' });
  }

  /** The rows of the Problems view of the given source, as text: `message fxlens FX101 [Ln 12, Col 9]`. */
  async problems() {
    const panel = this.page.locator('.markers-panel');
    if (!(await panel.isVisible())) {
      await this.command('Problems: Focus on Problems View'); // its key would close a panel that comes late
      await panel.waitFor({ timeout: ANSWER });
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
      try {
        if (await items.count()) {
          await this.page.keyboard.press('Escape'); // in an open menu the key below takes an entry
          await items.first().waitFor({ state: 'hidden', timeout: ANSWER });
        }
        await this.page.keyboard.press('Control+Period'); // lost when it lands before the editor has the focus
        await items.first().waitFor({ timeout: ANSWER });
        return (await items.allInnerTexts()).map(text => plain(text).trim());
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Opens the lightbulb's menu until it has such an entry. */
  async offered(pattern) {
    return until(`an entry like ${pattern}`, async () => {
      const all = await this.lightbulb();
      assert.ok(all.some(title => pattern.test(title)), `there are ${all}`);
      return all;
    });
  }

  /** Takes the entry of the lightbulb's menu, which is opened again when something closed it. */
  async choose(pattern) {
    const rows = this.page.locator('.action-widget .monaco-list-row.action');
    const focused = this.page.locator('.action-widget .monaco-list-row.action.focused');
    await until(`an entry like ${pattern}`, async () => {
      if (!(await rows.count())) await this.lightbulb();
      for (let left = await rows.count(); left > 0; left--) {
        if (pattern.test(plain(await focused.innerText({ timeout: ANSWER })))) {
          await this.page.keyboard.press('Enter');
          return true;
        }
        await this.page.keyboard.press('ArrowDown');
      }
      return false;
    });
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
      (await this.page.locator('.editor-instance .view-lines').allInnerTexts()).some(text => pattern.test(plain(text))));
  }

  /** The (doubly nested) frame of the visible webview of ours; one left behind another tab can keep its own frame for a while. */
  webview() {
    return this.#frame(this.#webviews().last());
  }

  /** The one that shows what is selected, where a panel and a page are visible at once: their order is not that of opening. */
  async webviewWith(selector) {
    return until(`a webview with ${selector}`, async () => {
      for (const each of await this.#webviews().all()) {
        if (await this.#frame(each).locator(selector).count()) return this.#frame(each);
      }
    });
  }

  #webviews() {
    return this.page.locator('iframe.webview.ready[src*="extensionId=fxlens.fx-lens"]').filter({ visible: true });
  }

  #frame(webview) {
    return webview.contentFrame().frameLocator('iframe#active-frame');
  }

  /** Messages that VS Code shows to the user as errors. */
  async errors() {
    return (await this.page.locator('.notification-toast .codicon-error').count()) ?
      this.page.locator('.notification-toast').allInnerTexts() : [];
  }

  /** Closes all that is open, without saving it, and forgets all messages: what a person does before the next task. */
  async clear() {
    const { page } = this;
    await page.keyboard.press('Escape');
    const discard = page.locator('.monaco-dialog-box').getByRole('button', { name: /Don't Save/ });
    await this.doUntil('no editor', () => this.command('View: Close All Editors'), async () => {
      if (await discard.count()) await discard.click({ timeout: ANSWER });
      return (await page.locator('.tab').count()) === 0;
    });
    const [panel, explorer] = ['.part.panel', '.explorer-folders-view'].map(part => page.locator(part).filter({ visible: true }));
    await this.doUntil('no panel', () => this.command('View: Hide Panel'), async () => !(await panel.count()));
    await this.doUntil('the files', () => this.command('View: Show Explorer'), async () => (await explorer.count()) > 0);
    await this.command('Notifications: Clear All Notifications');
    await page.mouse.move(0, 0);
  }
}
