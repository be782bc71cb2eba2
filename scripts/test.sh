#!/usr/bin/env bash
# Runs the tests, fast ones first, and stops at the first kind that fails:
#   scripts/test.sh [lint|pytest|unit|host|drives]…
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
stages=("${@:-}")
[ -n "${stages[0]}" ] || stages=(lint unit pytest host drives)

lint() { # ruff, mypy, TypeScript
    .venv/bin/ruff check .
    .venv/bin/ruff format --quiet --check .
    .venv/bin/mypy
    (cd vscode-extension && npm run --silent typecheck)
}
unit() { # the extension with a stand-in for VS Code
    (cd vscode-extension && npm run --silent unit)
}
pytest() { # fxlib, the server, the command line
    $python -m pytest tests -q -n "${PYTEST_WORKERS:-2}" --durations=25
}
host() { # the extension inside a real extension host
    tries 2 node tests/editor/host.mjs
}
drives() { # the real VS Code, used through its window
    local file
    for file in tests/editor/drives/*.test.mjs; do
        tries 3 node --test --test-concurrency=1 --test-reporter=spec "$file"
    done
}
tries() { # N command…: up to N tries, for the reason that tests/conftest.py gives
    local left=$1
    shift
    until "$@"; do
        [ $((left -= 1)) -gt 0 ] || return 1
        echo "== AGAIN: $*"
    done
}

for stage in "${stages[@]}"; do
    echo "== $stage"
    start=$SECONDS
    "$stage"
    echo "== $stage passed in $((SECONDS - start)) s"
done
