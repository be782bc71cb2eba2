#!/usr/bin/env bash
# What `make demo` shows once everything is set up: the command line on the examples, then the real VS Code on them.
set -euo pipefail
cd "$(dirname "$0")/.."
vsix=vscode-extension/fx-lens.vsix

echo; echo "\$ fxlens check examples"
.venv/bin/fxlens check examples || [ $? -eq 1 ]

if command -v code >/dev/null 2>&1 && [ -t 0 ]; then
    echo
    read -r -p "Install the extension in the desktop VS Code found here too? [y/N] " answer
    case $answer in [yY]*) code --install-extension $vsix --force ;; esac
fi
exec node tests/editor/serve.mjs
