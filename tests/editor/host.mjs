// Runs vscode-extension/test/host inside the real extension host; the exit status is the tests'.
// The workbench hands the output and the result over by two hooks that VS Code's own integration tests use.
import path from 'node:path';
import { startBrowser } from './lab/browser.mjs';
import { EXTENSION, folderUrl, startVSCode, workspace } from './lab/vscode.mjs';
import { startWarmPython } from './lab/warm.mjs';

const TIMEOUT = Number(process.env.HOST_TIMEOUT ?? 900_000);
const NOISE = /Could not locate the bindings file|build.Release.watchdog|^(Resolv(ing|ed) connection token|Creating a socket|Updating additional builtin|ChatSessionStore|\[Service Worker\]|getaddrinfo)/;

const ws = workspace({ 'empty.py': '' });
const warm = await startWarmPython();
const server = await startVSCode({ extensions: [], args: ['--enable-smoke-test-driver'] });
const browser = await startBrowser();
const remote = file => `vscode-remote://${server.authority}${file}`;
let code = 1;
try {
  code = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no result after ${TIMEOUT} ms`)), TIMEOUT);
    const print = (type, args) => { if (!NOISE.test(String(args[0])) || process.env.HOST_LOG) (console[type] ?? console.log)(...args); };
    const open = async () => {
      await browser.page.exposeFunction('codeAutomationLog', print);
      await browser.page.exposeFunction('codeAutomationExit', status => { clearTimeout(timer); resolve(status); });
      await browser.page.goto(folderUrl(server, ws.folder, [
        ['extensionDevelopmentPath', remote(EXTENSION)],
        ['extensionTestsPath', remote(path.join(EXTENSION, 'test', 'host', 'index.cjs'))],
        ['skipWelcome', 'true'],
      ]));
    };
    open().catch(reject);
  });
} catch (error) {
  console.error(error.message);
} finally {
  await browser.stop();
  await server.stop();
  await warm.stop();
  await ws.remove();
}
process.exit(code);
