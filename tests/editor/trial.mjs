import fs from 'node:fs';
import { drive, until } from './lab/workbench.mjs';
const folder = process.argv[2], files = process.argv.slice(3);
await drive('trial', {}, async bench => {
  for (const file of files) {
    const began = Date.now();
    await bench.openFile(file);
    await bench.page.locator('.codelens-decoration').first().waitFor({ timeout: 120000 }).catch(() => console.log('no lens', file));
    console.log(file, 'first lens after', Date.now() - began, 'ms');
    await bench.page.waitForTimeout(6000);
    console.log((await bench.problems()).join('\n'));
    await bench.page.screenshot({ path: `/tmp/trial-${file.replaceAll('/', '_')}.png` });
  }
}, { vscode: { settings: { 'fxlens.scope': 'meant' } }, prepare: () => folder, browser: { width: 1400, height: 900 } });
