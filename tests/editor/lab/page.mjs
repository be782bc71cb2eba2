// A page of the extension in a plain browser: a tiny server with its files, and a host that only records what it says.
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { EXTENSION } from './vscode.mjs';

const { build } = createRequire(path.join(EXTENSION, 'package.json'))('esbuild');
const DIST = path.join(EXTENSION, 'dist', 'pages');
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html' };

async function html(kind) {
  const out = await build({ entryPoints: [path.join(EXTENSION, 'src/pages', kind, 'document.ts')], bundle: true, format: 'esm', write: false });
  const made = await import(`data:text/javascript;base64,${Buffer.from(out.outputFiles[0].text).toString('base64')}`);
  return made[`${kind}Html`]({ script: `/${kind}.page.js`, style: `/${kind}.page.css`, source: "'self'", nonce: 'test' });
}

/** Opens the page of the graph, or of results (`sheet`); `sent` gives what it said to its host, `post` sends it a message. */
export async function openPage(page, kind = 'graph') {
  const document = await html(kind);
  const server = http.createServer((request, response) => {
    const file = path.join(DIST, path.basename(request.url));
    const found = request.url !== '/' && fs.existsSync(file);
    response.writeHead(found || request.url === '/' ? 200 : 404, { 'content-type': TYPES[path.extname(file)] ?? 'text/html' });
    response.end(found ? fs.readFileSync(file) : request.url === '/' ? document : '');
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const violations = [];
  page.on('console', message => { if (/Content Security Policy/.test(message.text())) violations.push(message.text()); });
  await page.addInitScript(() => {
    window.sent = [];
    window.acquireVsCodeApi = () => ({ postMessage: message => window.sent.push(message) });
  });
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.sent.some(message => message.type === 'ready'));
  return {
    violations,
    sent: () => page.evaluate(() => window.sent),
    post: message => page.evaluate(message => window.postMessage(message, '*'), message),
    stop: () => new Promise(resolve => {
      server.close(resolve);
      server.closeAllConnections(); // a browser keeps some open, for a minute
    }),
  };
}
