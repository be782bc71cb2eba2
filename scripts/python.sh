#!/usr/bin/env bash
# Names the interpreter to set up with: python3, or the system's where python3 was built without optimizations, as pyenv does unless
# it is told otherwise. The tests take a seventh longer with such a one.
says() { "$1" -c "import sys, sysconfig as s; $2" 2>/dev/null; }
chosen=python3
if ! says $chosen 'sys.exit("--enable-optimizations" not in (s.get_config_var("CONFIG_ARGS") or ""))' &&
    says /usr/bin/python3 'import ensurepip, venv, os
sys.exit(sys.version_info < (3, 10) or not os.path.exists(s.get_path("include") + "/Python.h"))'; then
    chosen=/usr/bin/python3
fi
echo $chosen
