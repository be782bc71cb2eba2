// Serves VS Code with the extension and the examples until it is interrupted: `node serve.mjs [folder]`, PORT names a port.
import path from 'node:path';
import { REPOSITORY, VSIX, folderUrl, startVSCode } from './lab/vscode.mjs';

const folder = path.resolve(process.argv[2] ?? path.join(REPOSITORY, 'examples'));
const server = await startVSCode({
  root: path.join(REPOSITORY, '.editor'), port: Number(process.env.PORT ?? 0) || undefined, settings: { 'fxlens.serverPython': '' },
  extensions: [VSIX],
});
console.log(`\nVS Code with FX Lens on ${path.relative(process.cwd(), folder) || folder}:\n\n    ${folderUrl(server, folder)}\n
Open it in a browser on this machine; try broken/wrap_me.py, and the lightbulb in it. Ctrl+C stops it.`);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => server.stop().then(() => process.exit(0)));
await server.exited;
