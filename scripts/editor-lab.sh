#!/usr/bin/env bash
# Puts the real VS Code into tests/editor/node_modules: the server and web workbench that the npm package code-server carries.
# No install script runs: they download from elsewhere or compile what nothing here uses.
set -euo pipefail
cd "$(dirname "$0")/../tests/editor"
npm ci --loglevel=error
vscode=node_modules/code-server/lib/vscode
(cd $vscode && npm install --ignore-scripts --omit=dev --no-audit --no-fund --loglevel=error)
# Quick Open and search run a ripgrep that its package would have downloaded.
bin=$vscode/node_modules/@vscode/ripgrep/bin
mkdir -p $bin
ln -sf "$(command -v rg)" $bin/rg
touch node_modules/.ready
