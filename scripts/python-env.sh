#!/usr/bin/env bash
# Makes .venv: torch as constraints.txt pins it, and this project, editable.
#   scripts/python-env.sh demo    what `make demo` needs
#   scripts/python-env.sh test    and the test tools, the model zoos, the lowering engines
# PYTHON names the interpreter; PIP_ARGS goes to every installation (an index that has CPU builds of torch, for example).
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:-test}
python=.venv/bin/python
[ -x $python ] || "${PYTHON:-python3}" -m venv .venv
# Words of pip's configuration: `pip_says find-links`. What is in the environment comes first in its list.
pip_says() { sed -n "s/^\(:env:\|global\|install\|user\|site\)\.$1='\(.*\)'\$/\2/p" <<<"$configured" | head -1; }
# pip resolves and unpacks for 50 s of the processor, uv for 10. uv is told how pip is configured; where it fails, as behind an
# index that it does not understand, pip installs.
# Bytecode is written where a module is first imported: most of the 16,000 never are, and all would be compiled.
configured=$($python -m pip config list)
uv=()
if $python -m pip install --quiet --disable-pip-version-check uv; then
    uv=(.venv/bin/uv pip install --quiet --python $python --index-strategy unsafe-best-match)
    for each in $(pip_says index-url); do uv+=(--default-index "$each"); done
    for each in $(pip_says extra-index-url); do uv+=(--index "$each"); done
    for each in $(pip_says find-links); do uv+=(--find-links "$each"); done
    for each in $(pip_says constraint); do uv+=(--constraint "$each"); done
    export SSL_CERT_FILE=${SSL_CERT_FILE:-$(pip_says cert)}
    [ -n "$SSL_CERT_FILE" ] || unset SSL_CERT_FILE
fi
# shellcheck disable=SC2086  # PIP_ARGS is a list of words
install() {
    [ ${#uv[@]} = 0 ] || ! "${uv[@]}" -c constraints.txt ${PIP_ARGS:-} "$@" || return 0
    $python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt ${PIP_ARGS:-} "$@"
}

# What nothing here depends on comes meanwhile, alone. The zoos name torch as a dependency, and would replace the pinned
# build; the one package that openvino depends on besides numpy sends statistics on the use of tools that are not used here.
beside=
if [ "$want" = test ]; then
    alone=(openvino torchvision timm transformers)
    if [ "$(uname -sm)" = "Linux x86_64" ]; then
        alone+=(tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings)
    fi
    install --no-deps "${alone[@]}" &
    beside=$!
fi

# torch before all else, so that nothing pulls in another build of it.
install torch numpy
if [ "$want" = demo ]; then
    install -e '.[torch,graph]'
    exit
fi
install -e '.[torch,graph,lower,ray,mcp,test]' \
    huggingface_hub safetensors tokenizers pillow pyyaml regex requests filelock packaging typer tqdm
wait $beside
# What every process imports would be compiled by the first of them all at once.
$python -c 'import compileall, importlib.util as u, sys
for name in sys.argv[1:]:
    compileall.compile_dir(u.find_spec(name).submodule_search_locations[0], quiet=2, workers=0)' torch numpy sympy pygls lsprotocol
if ! $python -c 'import torchvision' 2>/dev/null; then
    # A torchvision built for CUDA cannot load its compiled operators beside a CPU torch, and then does not import at all,
    # for want of two operators' schemas. The models need no compiled operator: the schemas are enough.
    extension=$($python -c 'import importlib.util as u; print(u.find_spec("torchvision").submodule_search_locations[0])')/extension.py
    cat >> "$extension" <<'PYTHON'


if not _has_ops():
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
PYTHON
    $python -c 'import torchvision'
fi
