# make demo    set up, show what the command line finds in the examples, and serve the real VS Code with the extension
# make check   before a commit, in under a minute: linters, unit tests and the heart of each part (listed in scripts/test.sh)
# make test    set up and run every test: linters, Python, extension, real editors
# make setup   only set up; make clean removes what it made
ifndef PYTHON
PYTHON := $(shell scripts/python.sh)
endif
export PYTHON

EXTENSION := vscode-extension
VSIX := $(EXTENSION)/fx-lens.vsix
LAB := tests/editor/node_modules/.ready
SERVER_SOURCES := $(shell find fxlib server -name '*.py' -o -name 'rules.json' -o -path '*/views/page/*' -type f 2>/dev/null)
EXTENSION_SOURCES := $(shell find $(EXTENSION)/src $(EXTENSION)/media $(EXTENSION)/scripts -type f 2>/dev/null) \
    $(EXTENSION)/package.json $(EXTENSION)/esbuild.mjs $(EXTENSION)/.vscodeignore $(EXTENSION)/README.md

.PHONY: demo setup check test lint pytest unit host drives vsix system clean

demo: .venv/.demo $(LAB) $(VSIX)
	@scripts/demo.sh

setup: system .venv/.test $(LAB) $(VSIX)

check: system .venv/.test $(EXTENSION)/node_modules/.ready
	@scripts/test.sh check

# At once: what the system installs, what pip and what npm. The extension is packed beside the tests that do not need it.
test:
	@scripts/system-packages.sh demo
	@$(MAKE) --no-print-directory -j4 system .venv/.test $(LAB) $(EXTENSION)/node_modules/.ready
	@scripts/test.sh

lint pytest unit host drives: setup
	@scripts/test.sh $@

vsix: $(VSIX)

system:
	@scripts/system-packages.sh test

.venv/.demo: pyproject.toml constraints.txt scripts/python-env.sh scripts/system-packages.sh
	scripts/system-packages.sh demo
	test -f .venv/.test || scripts/python-env.sh demo
	touch $@

.venv/.test: pyproject.toml constraints.txt scripts/python-env.sh scripts/system-packages.sh
	scripts/system-packages.sh demo
	scripts/python-env.sh test
	touch $@ .venv/.demo

$(LAB): tests/editor/package-lock.json scripts/editor-lab.sh
	scripts/editor-lab.sh

$(EXTENSION)/node_modules/.ready: $(EXTENSION)/package-lock.json
	cd $(EXTENSION) && npm ci --loglevel=error
	touch $@

$(VSIX): $(EXTENSION)/node_modules/.ready $(EXTENSION_SOURCES) $(SERVER_SOURCES) | .venv/.demo
	cd $(EXTENSION) && npm run --silent build && npm run --silent bundle && npm run --silent package -- >/dev/null

clean:
	rm -rf .venv .artifacts .editor tests/editor/node_modules $(EXTENSION)/node_modules $(EXTENSION)/dist $(EXTENSION)/bundled $(VSIX)
