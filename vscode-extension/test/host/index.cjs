// Entry point that the extension host calls: runs every *.test.cjs of this folder with mocha.
const fs = require('node:fs');
const path = require('node:path');
const Mocha = require('mocha');

exports.run = () => new Promise((resolve, reject) => {
  const mocha = new Mocha({ ui: 'bdd', timeout: 60_000, slow: 5_000, color: false });
  for (const file of fs.readdirSync(__dirname).filter(name => name.endsWith('.test.cjs')).sort()) mocha.addFile(path.join(__dirname, file));
  mocha.run(failures => (failures ? reject(new Error(`${failures} tests failed`)) : resolve()));
});
