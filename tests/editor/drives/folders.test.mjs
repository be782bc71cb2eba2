// A workspace of two folders, each with its own interpreter; one of them chooses another while its model is open.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { PYTHON } from '../lab/vscode.mjs';
import { drive, step } from '../lab/drive.mjs';

const model = (name, size) => `import torch
from torch import nn


# fxlens: ${name}() <- torch.randn(2, ${size})
class ${name}(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x.relu()
`;
const files = {
  'first/one.py': model('One', 3), 'second/two.py': model('Two', 5),
  'both.code-workspace': JSON.stringify({ folders: [{ path: 'first' }, { path: 'second' }], settings: {} }),
};

/** An interpreter that leaves a mark when it runs. */
function interpreter(ws, name) {
  fs.writeFileSync(ws.file(name), `#!/bin/sh\ntouch "${ws.file(name)}.ran"\nexec "${PYTHON}" "$@"\n`, { mode: 0o755 });
}

/** Has a folder of the workspace name its interpreter. */
function choose(ws, folder, name) {
  fs.mkdirSync(ws.file(`${folder}/.vscode`), { recursive: true });
  fs.writeFileSync(ws.file(`${folder}/.vscode/settings.json`), JSON.stringify({ 'fxlens.python': ws.file(name) }));
}

test('each folder of a workspace has its interpreter', { timeout: 900_000 }, async t => {
  const prepare = ws => {
    for (const name of ['python-first', 'python-second', 'python-other']) interpreter(ws, name);
    choose(ws, 'first', 'python-first');
    choose(ws, 'second', 'python-second');
    return ws.file('both.code-workspace');
  };
  await drive('folders', files, async (bench, ws) => {
    const ran = name => fs.existsSync(ws.file(`${name}.ran`));

    await step(t, 'the models of both are judged, each by its own', async () => {
      await bench.openFile('one.py');
      await bench.squiggle(8, 'x.sum() > 0');
      assert.ok(ran('python-first'));
      await bench.openFile('two.py');
      await bench.squiggle(8, 'x.sum() > 0');
      assert.ok(ran('python-second') && !ran('python-other'));
      await bench.screenshot('both');
    });

    await step(t, 'another interpreter takes over where it is chosen, and the models of its folder are traced with it', async () => {
      await bench.openFile('one.py');
      fs.rmSync(ws.file('python-first.ran'));
      await bench.doUntil('the other interpreter', () => choose(ws, 'first', 'python-other'), () => ran('python-other'));
      await bench.goTo(7, 200);
      await bench.page.keyboard.type('\n        x = x * len(x)');
      await bench.squiggle(8, 'len(x)');
      await bench.squiggle(9, 'x.sum() > 0');
      assert.ok(!ran('python-first'), 'nothing starts the one that was left');
      await bench.screenshot('other');
    });
    assert.deepEqual(await bench.errors(), []);
  }, { prepare });
});
