// Bundles the host side, and the page of each panel, into dist/.
import { build } from 'esbuild';
import fs from 'node:fs';

const shared = { bundle: true, minify: true, sourcemap: false, logLevel: 'warning' };
const pages = fs.existsSync('src/pages') ? fs.readdirSync('src/pages').filter(f => f.endsWith('.page.ts')) : [];

fs.rmSync('dist', { recursive: true, force: true });
await build({
  ...shared, entryPoints: ['src/extension.ts'], outfile: 'dist/extension.js',
  platform: 'node', format: 'cjs', target: 'node20', external: ['vscode'],
});
if (pages.length) {
  await build({
    ...shared, entryPoints: pages.map(f => `src/pages/${f}`), outdir: 'dist/pages',
    platform: 'browser', format: 'iife', target: 'es2022',
  });
}
