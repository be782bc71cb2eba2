// A headless Chromium that the tests of a process share, and the one way in which anything in it is waited for.
import os from 'node:os';
import { chromium } from 'playwright-core';
import { Kept } from './kept.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--font-render-hinting=none',
  // Webviews run in the process of their page: one of their own takes a second or two of the processor to start.
  '--disable-site-isolation-trials'];
/** How long a state is waited for: it is there in a second on a quiet machine, and on a busy one it must not matter. */
const PATIENCE = Number(process.env.STEP_TIMEOUT ?? 120_000);

const chromiums = new Kept(async () => {
  const browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: ARGS });
  return { browser, works: () => browser.isConnected(), stop: () => browser.close() };
});

/** A page with cookies and stores of its own; `stop(true)` says that its test failed. */
export async function startBrowser({ width = 1400, height = 900, scale = 1 } = {}) {
  const { browser } = await chromiums.take();
  try {
    const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: scale });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    return { page, stop: failed => context.close().finally(() => chromiums.give(failed)) };
  } catch (error) {
    await chromiums.give(true);
    throw error;
  }
}

/** How long here takes what takes so many milliseconds on a machine that does nothing else. */
export const ofAnIdleMachine = milliseconds => milliseconds * Math.max(1, os.loadavg()[0] / os.cpus().length);

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
