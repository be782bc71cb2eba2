// Fills bundled/libs with what the server needs and is not in Python itself: its pure-Python dependencies, fxlens and fxlib.
// Wheels for any platform and the oldest Python we serve, so that one .vsix fits all.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const here = path.resolve(import.meta.dirname, '..');
const repository = path.dirname(here);
const libs = path.join(here, 'bundled', 'libs');
const requirements = ['pygls>=2.1,<3', 'lsprotocol>=2025.0.0', 'tomli>=2', 'exceptiongroup>=1.2'];
const python = fs.existsSync(path.join(repository, '.venv/bin/python')) ? path.join(repository, '.venv/bin/python') : 'python3';

// Has compiled wheels alone; without the compiled part of one it reads YAML in Python.
const compiled = ['pyyaml==6.0.3'];

const stamp = path.join(here, 'bundled', '.requirements');
const wanted = [...requirements, ...compiled].join('\n');
if (!fs.existsSync(stamp) || fs.readFileSync(stamp, 'utf8') !== wanted) {
  fs.rmSync(libs, { recursive: true, force: true });
  const install = (kind, names) => execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check',
    '--target', libs, '--no-compile', '--only-binary=:all:', '--python-version', '3.10', ...kind, ...names], { stdio: 'inherit' });
  install(['--implementation', 'py', '--abi', 'none', '--platform', 'any'], requirements);
  install(['--implementation', 'cp', '--abi', 'cp310', '--platform', 'manylinux2014_x86_64', '--no-deps'], compiled);
  fs.rmSync(path.join(libs, '_yaml'), { recursive: true, force: true });
  for (const file of fs.readdirSync(path.join(libs, 'yaml')).filter(name => name.endsWith('.so')))
    fs.rmSync(path.join(libs, 'yaml', file));
  fs.rmSync(path.join(libs, 'bin'), { recursive: true, force: true });
  fs.writeFileSync(stamp, wanted);
}

const source = file => !/(^|[/\\])__pycache__$|\.pyc$/.test(file);
for (const [name, from] of [['fxlib', 'fxlib'], ['fxlens', 'server/fxlens']]) {
  const target = path.join(libs, name);
  fs.rmSync(target, { recursive: true, force: true });
  fs.cpSync(path.join(repository, from), target, { recursive: true, filter: source });
}
// Where rules.py looks for the pages of the rules.
fs.rmSync(path.join(here, 'bundled', 'docs'), { recursive: true, force: true });
fs.cpSync(path.join(repository, 'docs', 'rules'), path.join(here, 'bundled', 'docs', 'rules'), { recursive: true });
