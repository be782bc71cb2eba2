#!/usr/bin/env bash
# Builds what is published, in dist/: wheel, sdist and .vsix (with the bundled server), and checks each.
#   scripts/release.sh          as the version is
#   scripts/release.sh v0.1.0   and the version must be that of this tag
# A version with an odd minor number is a pre-release: the extension's pre-release channel, and an rc on PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
own=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' server/fxlens/__init__.py)
extension=$(node -p "require('./vscode-extension/package.json').version")
[ "$version" = "$own" ] && [ "$version" = "$extension" ] || { echo "versions differ: $version, $own, $extension" >&2; exit 1; }
[ $# -eq 0 ] || [ "$1" = "v$version" ] || { echo "the tag $1 is not v$version" >&2; exit 1; }
grep -q "^## $version" CHANGELOG.md || { echo "CHANGELOG.md has nothing on $version" >&2; exit 1; }
minor=$(cut -d. -f2 <<<"$version")
channel=()
[ $((minor % 2)) -eq 0 ] || channel=(--pre-release)

rm -rf dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z pyproject.toml README.md LICENSE fxlib server docs/rules | xargs -0 cp --parents -t "$work"
[ ${#channel[@]} -eq 0 ] || sed -i "s/^version = .*/version = \"${version}rc0\"/" "$work/pyproject.toml"
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check build twine
"$work/tools/bin/python" -m build --outdir dist "$work"
"$work/tools/bin/twine" check --strict dist/*

# The wheel and the sdist alone, each in an empty environment: commands start, rules have their pages.
for built in dist/*.whl dist/*.tar.gz; do
    rm -rf "$work/empty"
    "$python" -m venv "$work/empty"
    "$work/empty/bin/pip" install --quiet --disable-pip-version-check "$built"
    (cd "$work" && empty/bin/fxlens --version && printf 'x = 1\n' > none.py && empty/bin/fxlens check none.py)
    (cd "$work" && empty/bin/python -c 'from fxlens import rules; assert "## Works" in rules.text("FX101")')
done

(
    cd vscode-extension
    npm ci --loglevel=error
    npm run --silent build
    npm run --silent bundle
    npx vsce ls --no-dependencies > "$work/listed"
    for needed in package.json dist/extension.js bundled/serve.py bundled/libs/fxlens/cli.py bundled/libs/fxlib/__init__.py \
        bundled/docs/rules/FX101.md; do
        grep -qx "$needed" "$work/listed" || { echo "the .vsix lacks $needed" >&2; exit 1; }
    done
    npx vsce package "${channel[@]}" --no-dependencies --allow-missing-repository -o ../dist/fx-lens.vsix
)
ls -l dist
