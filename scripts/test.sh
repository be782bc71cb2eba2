#!/usr/bin/env bash
# Runs the tests:
#   scripts/test.sh                    all of them, pytest beside everything else
#   scripts/test.sh check              before a commit: linters, unit tests and the heart of each part, in under a minute
#   scripts/test.sh lint|unit|pytest|host|drives …
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# The tests start hundreds of processes: each would compile the sources again, or import torch again, since a path could
# bring another one (tests/server/warm_python.py).
unset PYTHONDONTWRITEBYTECODE PYTHONPATH

# What `check` runs of pytest: of each part what it is for, where it takes seconds.
heart=(
    tests/test_rooms.py
    # fxlib traces, writes code and runs graphs as torch.fx does
    tests/fxlib/capture
    tests/fxlib/ir/test_graph_module.py
    tests/fxlib/ir/test_names.py
    tests/fxlib/ir/test_programs.py
    tests/fxlib/ir/test_spelling.py
    tests/fxlib/ir/test_taken_attributes.py
    tests/fxlib/toolkit/test_interpreter.py
    # what a model is told, and fixes that are proven
    tests/fxlib/diagnosis/test_diagnose.py
    tests/fxlib/diagnosis/test_exploring.py
    tests/fxlib/diagnosis/test_rules.py
    tests/fxlib/fixes/test_recipes.py
    tests/fxlib/fixes/test_verify.py::test_wrap_is_proven_and_torch_fx_agrees
    tests/fxlib/fixes/test_verify.py::test_what_changes_eager_is_dropped
    tests/fxlib/fixes/test_verify.py::test_verify_in_one_call
    # shapes, passes and lowering
    tests/fxlib/passes/test_shape_prop.py
    tests/fxlib/passes/test_fuse_conv_bn.py
    tests/fxlib/lowering/test_lower.py::test_unsupported_operator_in_the_middle_stays_in_pytorch
    tests/fxlib/lowering/test_lower.py::test_save_and_load
    # a session with a server: findings, broken text, fixes, hover, the record; one run of fxlens check
    tests/server/test_record.py
    tests/server/test_verify.py
    tests/server/test_server.py::test_an_unsaved_edit_shows_its_problem_and_the_next_removes_it
    tests/server/test_server.py::test_broken_syntax_keeps_what_is_known_of_other_lines
    tests/server/test_server.py::test_the_proven_fix_is_preferred_and_mends
    tests/server/test_views.py::test_lines_of_a_file_that_others_run_through_say_whose_call_it_is
    tests/server/test_server.py::test_requests_for_documents_that_are_not_open
    tests/server/test_check.py::test_json_positions_are_utf16_from_zero
    tests/server/test_check.py::test_json_fixes_are_proven
    tests/server/test_check.py::test_json_targets_say_what_became_of_each_model
)

check() {
    beside lint unit heart
}
lint() { # ruff, mypy, TypeScript
    beside ruff types mypy
}
ruff() {
    .venv/bin/ruff check .
    .venv/bin/ruff format --quiet --check .
}
mypy() { # reads again what has changed since the last time
    .venv/bin/mypy
}
types() {
    (cd vscode-extension && npm run --silent typecheck)
}
unit() { # the extension with a stand-in for VS Code
    (cd vscode-extension && npm run --silent unit)
}
heart() {
    $python -m pytest "${heart[@]}" -q -n "${PYTEST_WORKERS:-2}" --dist worksteal --durations=5
}
pytest() { # fxlib, the server, the command line; a worker keeps the tests of a file, which share what is slow to start
    $python -m pytest tests -q -n "${PYTEST_WORKERS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}" --dist worksteal --durations=25
}
pack() { # the extension, for host and drives
    make --no-print-directory setup
}
host() { # the extension inside a real extension host
    tries 2 node tests/editor/host.mjs
}
drives() { # the real VS Code, used through its window; what fails has two more tries
    node tests/editor/drives.mjs
}
tries() { # N command…: up to N tries, for the reason that tests/conftest.py gives
    local left=$1
    shift
    until "$@"; do
        [ $((left -= 1)) -gt 0 ] || return 1
        echo "== AGAIN: $*"
    done
}
editor() { # all that is not Python's, and the linters
    run pack lint unit host drives
}

run() { # stage…: one after another
    local stage start
    for stage; do
        echo "== $stage"
        start=$SECONDS
        "$stage"
        echo "== $stage passed in $((SECONDS - start)) s"
    done
}
beside() { # stage…: at once; the output of the last as it comes, that of the others when they end
    local -A running=()
    local logs stage pid failed=()
    logs=$(mktemp -d)
    for stage; do
        if [ "$stage" = "${*: -1}" ]; then "$stage" & else "$stage" >"$logs/$stage" 2>&1 & fi
        running[$!]=$stage
    done
    while [ ${#running[@]} -gt 0 ]; do
        wait -n -p pid "${!running[@]}" || failed+=("${running[$pid]}")
        stage=${running[$pid]}
        unset "running[$pid]"
        [ ! -f "$logs/$stage" ] || cat "$logs/$stage"
    done
    rm -r "$logs"
    [ ${#failed[@]} -eq 0 ] || { echo "== failed: ${failed[*]}" && return 1; }
}

$python -m compileall -q fxlib server
# What runs in the background does not hear Control+C by itself.
trap 'trap - TERM; kill 0' INT TERM
if [ $# -gt 0 ]; then run "$@"; else beside editor pytest; fi
