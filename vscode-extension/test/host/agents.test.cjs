// The tools of agents, called as an agent of VS Code calls them.
const assert = require('node:assert/strict');
const vscode = require('vscode');

const TEXT = `import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return x * 2
`;

describe('the tools of agents', function () {
  this.timeout(180_000);
  let extension;
  let uri;

  /** The answer as data; what a tool throws is for the agent. */
  async function call(tool, input) {
    const result = await vscode.lm.invokeTool(`fxlens_${tool}`, { input, toolInvocationToken: undefined });
    const text = result.content.map(part => part.value).join('');
    assert.ok(Buffer.byteLength(text) <= 2000, text);
    return JSON.parse(text);
  }

  before(async () => {
    extension = vscode.extensions.getExtension('fxlens.fx-lens');
    await extension.activate();
    uri = vscode.Uri.joinPath(vscode.workspace.workspaceFolders[0].uri, 'asked.py');
    await vscode.workspace.fs.writeFile(uri, Buffer.from(TEXT));
  });

  it('are known to VS Code with what says when to use them', () => {
    const named = extension.packageJSON.contributes.languageModelTools;
    const known = new Map(vscode.lm.tools.map(tool => [tool.name, tool]));
    for (const { name, modelDescription, inputSchema } of named) {
      assert.equal(known.get(name)?.description, modelDescription);
      assert.deepEqual(known.get(name).inputSchema, inputSchema);
    }
    assert.equal(named.length, 7);
  });

  it('judge the text that is not saved', async () => {
    const saved = await call('diagnose', { file: 'asked.py' });
    assert.deepEqual([saved.findings, saved.fresh, saved.unsaved], [undefined, true, undefined]);
    const document = await vscode.workspace.openTextDocument(uri);
    const edit = new vscode.WorkspaceEdit();
    edit.insert(uri, new vscode.Position(7, 0), '        if x.sum() > 0:\n            x = -x\n');
    await vscode.workspace.applyEdit(edit);
    assert.ok(document.isDirty);
    const edited = await call('diagnose', { file: uri.fsPath });
    assert.deepEqual([edited.fresh, edited.unsaved, edited.findings.map(each => each.code)], [true, true, ['FX101']]);
    assert.notEqual(edited.version, saved.version);
    assert.deepEqual(edited.findings[0].range.start, { line: 7, character: 11 });
  });

  it('say why there is no answer', async () => {
    await assert.rejects(call('graph', { file: 'nowhere.py' }), /cannot be read: No such file/);
  });
});
