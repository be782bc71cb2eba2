#!/usr/bin/env bash
# Checks the programs that come from the system, and installs what is missing where that is possible (Debian or Ubuntu, root).
#   scripts/system-packages.sh demo    what `make demo` needs
#   scripts/system-packages.sh test    and what the tests drive: a browser, other editors
set -euo pipefail
PYTHON=${PYTHON:-python3}
want=${1:-test}
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }

need rg ripgrep
if [ "$want" = test ]; then
    command -v "${CHROMIUM:-chromium}" >/dev/null 2>&1 || missing+=(chromium)
    if ! command -v fc-list >/dev/null 2>&1; then
        missing+=(fontconfig fonts-dejavu-core)
    elif ! fc-list | grep -i dejavu >/dev/null; then
        missing+=(fonts-dejavu-core)
    fi
    need dot graphviz
    need nvim neovim
    need emacs emacs-nox
    # Emacs has it built in from version 29 on.
    emacs --batch --eval "(progn (package-initialize) (require 'eglot))" >/dev/null 2>&1 || missing+=(elpa-eglot)
fi
need "$PYTHON" "python3"
need npm npm
if command -v "$PYTHON" >/dev/null 2>&1; then
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
        echo "FX Lens needs Python 3.10 or newer; $PYTHON is $("$PYTHON" --version 2>&1). Name another one: make PYTHON=python3.12 …" >&2
        exit 1
    }
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
fi

if [ ${#missing[@]} -gt 0 ]; then
    install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        printf 'Missing system packages: %s\nInstall them with:\n    sudo sh -c "%s"\n' "${missing[*]}" "$install" >&2
        exit 1
    fi
    echo "Installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=600 --no-install-recommends "${missing[@]}" >/dev/null
fi

node=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$node" -lt 20 ]; then
    echo "FX Lens builds with Node 20 or newer; found $(node --version 2>/dev/null || echo none)." >&2
    exit 1
fi
