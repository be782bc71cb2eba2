// The manifest and the activation, in a real extension host.
const assert = require('node:assert/strict');
const vscode = require('vscode');

describe('the extension', () => {
  let extension;
  before(async () => {
    extension = vscode.extensions.getExtension('fxlens.fx-lens');
    assert.ok(extension, 'the extension is known');
    await extension.activate();
  });

  it('registers exactly the commands that its manifest names', async () => {
    const named = extension.packageJSON.contributes.commands.map(c => c.command).sort();
    const registered = (await vscode.commands.getCommands(true)).filter(c => c.startsWith('fxlens.')).sort();
    assert.deepEqual(named.filter(c => !registered.includes(c)), []);
  });

  it('describes every setting and gives it a scope', () => {
    for (const [name, setting] of Object.entries(extension.packageJSON.contributes.configuration.properties)) {
      assert.ok(setting.markdownDescription?.length > 20, `${name} has a description`);
      assert.ok(setting.scope, `${name} has a scope`);
    }
  });

  it('restricts every setting that names a program', () => {
    const { properties } = extension.packageJSON.contributes.configuration;
    const programs = Object.keys(properties).filter(name => /python/i.test(name));
    assert.deepEqual(extension.packageJSON.capabilities.untrustedWorkspaces.restrictedConfigurations.slice().sort(), programs.sort());
  });
});
