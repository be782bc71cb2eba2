// Workspace trust: before it nothing of the folder runs, neither its models nor an interpreter that it brings; after it both do.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { PYTHON } from '../lab/vscode.mjs';
import { drive, plain, step, until } from '../lab/drive.mjs';

const MODEL = `import torch, pathlib
from torch import nn

pathlib.Path(TRIPWIRE).write_text("imported")


# fxlens: Net() <- torch.randn(2, 3)
class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x.relu()
`;

test('nothing of the folder runs before it is trusted', { timeout: 900_000 }, async t => {
  const marks = fs.mkdtempSync(path.join(os.tmpdir(), 'fxlens-marks-'));
  const mark = name => path.join(marks, name);
  const ran = name => fs.existsSync(mark(name));
  const interpreter = name => `#!/bin/sh\ntouch "${mark(name)}"\nexec "${PYTHON}" "$@"\n`;
  const files = {
    'model.py': MODEL.replace('TRIPWIRE', JSON.stringify(mark('model'))),
    'sitecustomize.py': `open(${JSON.stringify(mark('sitecustomize'))}, "w").close()\n`,
    'fxlens.py': `open(${JSON.stringify(mark('shadow'))}, "w").close()\n`,
    '.vscode/settings.json': '{}',
  };
  const vscode = {
    settings: { 'security.workspace.trust.enabled': true, 'security.workspace.trust.startupPrompt': 'never', 'fxlens.python': '' },
  };
  try {
    const prepare = ws => {
      for (const [name, file] of [['setting', 'evil/python'], ['venv', '.venv/bin/python'], ['server', 'evil/server']]) {
        fs.mkdirSync(path.dirname(ws.file(file)), { recursive: true });
        fs.writeFileSync(ws.file(file), interpreter(name), { mode: 0o755 });
      }
      fs.writeFileSync(ws.file('.vscode/settings.json'),
        JSON.stringify({ 'fxlens.python': ws.file('evil/python'), 'fxlens.serverPython': ws.file('evil/server') }));
    };
    await drive('trust', files, async bench => {
      await step(t, 'restricted: findings come from the syntax, and nothing ran', async () => {
        await bench.page.locator('.statusbar-item').filter({ hasText: 'Restricted Mode' }).waitFor();
        await bench.openFile('model.py');
        await bench.squiggle(10, 'x.sum() > 0');
        await bench.goTo(12, 200);
        await bench.page.keyboard.type(' * len(x)');
        await bench.page.locator('.statusbar-item').filter({ hasText: 'FX Lens' }).locator('.codicon-shield').waitFor();
        await bench.squiggle(12, 'len(x)', 'info'); // the edited text has been judged
        await bench.screenshot('restricted');
        assert.deepEqual(fs.readdirSync(marks), [], 'nothing of the folder ran');
      });

      await step(t, 'restricted: what needs a trace says so, and leads to the trust', async () => {
        await bench.command('FX Lens: Show Generated Forward');
        assert.match(await bench.told('no trace of this file yet'), /runs no code before the workspace is trusted/);
        await bench.command('FX Lens: Show Graph');
        await until('the reason', async () => /not trusted/.test(plain(await bench.webview().locator('#reason').innerText({ timeout: 3000 }))));
        await bench.screenshot('no-trace');
        await bench.dismiss('no trace of this file yet');
        assert.deepEqual(fs.readdirSync(marks), [], 'nothing of the folder ran');
      });

      await step(t, 'trusted: the model runs with the interpreter that the folder names', async () => {
        await bench.command('Workspaces: Manage Workspace Trust');
        await bench.clickUntil('the interpreter of the folder', bench.page.getByRole('button', { name: 'Trust', exact: true }).first(), () => ran('setting'));
        await bench.page.keyboard.press('Control+W').catch(() => {});
        await bench.openFile('model.py');
        await until('the model', () => ran('model'));
        await bench.squiggle(10, 'x.sum() > 0');
        await bench.screenshot('trusted');
        assert.ok(!ran('shadow'), 'a module of the folder must not stand in for ours');
      });
    }, { vscode, prepare });
  } finally {
    fs.rmSync(marks, { recursive: true, force: true });
  }
});
