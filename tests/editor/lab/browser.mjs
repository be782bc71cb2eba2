// A headless Chromium, and the one way in which anything in it is waited for.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { remove } from './folders.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--font-render-hinting=none'];
/** How long a state is waited for: it is there in a second on a quiet machine, and on a busy one it must not matter. */
const PATIENCE = Number(process.env.STEP_TIMEOUT ?? 120_000);

export async function startBrowser({ width = 1400, height = 900, scale = 1 } = {}) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, headless: true, viewport: { width, height }, deviceScaleFactor: scale, args: ARGS,
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(PATIENCE);
  return { page, stop: async () => { await context.close(); await remove(profile); } };
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
    await new Promise(resolve => setTimeout(resolve, 200));
  }
}
