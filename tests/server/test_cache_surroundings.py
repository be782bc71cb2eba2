"""What the records that ``fxlens check`` keeps depend on besides files: the interpreter, its packages, the folder in
which the code runs, and the limits."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from check_command import fxlens


def test_the_cache_knows_an_interpreter_by_what_is_installed_and_not_by_times(tmp_path: Path):
    from fxlens.checking.cache import environment_of

    python = tmp_path / "bin" / "python"
    record = tmp_path / "lib" / "python3.12" / "site-packages" / "torch-2.13.0.dist-info" / "RECORD"
    for path in (python, record):
        path.parent.mkdir(parents=True)
        path.write_text("torch/__init__.py,sha256=a,1\n")
    before = environment_of(str(python))
    os.utime(record, (1, 1))
    os.utime(record.parents[1], (1, 1))
    assert environment_of(str(python)) == before
    record.write_text("torch/__init__.py,sha256=b,1\n")
    assert environment_of(str(python)) != before


def test_it_knows_debians_packages_and_those_of_the_system_below_a_virtual_environment(tmp_path: Path):
    from fxlens.checking.cache import environment_of

    python, home = tmp_path / "venv" / "bin" / "python", tmp_path / "usr"
    python.parent.mkdir(parents=True)
    python.touch()
    (home / "bin").mkdir(parents=True)
    (python.parents[1] / "pyvenv.cfg").write_text(f"home = {home / 'bin'}\ninclude-system-site-packages = true\n")
    before = environment_of(str(python))
    (home / "lib" / "python3" / "dist-packages" / "torch-2.13.0.egg-info").mkdir(parents=True)
    assert (now := environment_of(str(python))) != before
    (python.parents[1] / "pyvenv.cfg").write_text(f"home = {home / 'bin'}\ninclude-system-site-packages = false\n")
    assert environment_of(str(python)) == before != now


def test_packages_behind_a_script_or_a_link_count(tmp_path: Path):
    """As those behind the `python` of pyenv, which starts the one of the folder."""
    from fxlens.checking.cache import environment_of

    installed = tmp_path / "3.11" / "lib" / "python3.11" / "site-packages" / "kit-1.0.dist-info"
    installed.mkdir(parents=True)
    real = tmp_path / "3.11" / "bin" / "python"
    real.parent.mkdir()
    real.write_text("")
    link, script = tmp_path / "bin" / "python", tmp_path / "shims" / "python"
    for each in (link, script):
        each.parent.mkdir()
    link.symlink_to(real)
    script.write_text(f"#!/bin/sh\necho {tmp_path / '3.11'}\n")
    script.chmod(0o755)
    before = [environment_of(str(each)) for each in (link, script)]
    (installed / "RECORD").write_text("kit/__init__.py,sha256=1,\n")
    assert all(environment_of(str(each)) != old for each, old in zip((link, script), before, strict=True))
    script.write_text(f"#!/bin/sh\necho {tmp_path / '3.12'}\n")
    assert environment_of(str(script)) != before[1]


RELATIVE = """\
import os
from torch import nn

ASKS = {asks}


class Net(nn.Module):
    def forward(self, x):
        return x * (len(x) if ASKS else 2)
"""


@pytest.mark.parametrize(
    "asks", ["open('asks').read() == '1'", "os.path.exists('there')", "os.getcwd()[-4:] == 'part'"]
)
def test_a_relative_path_is_that_of_the_folder_of_the_run(tmp_path: Path, asks: str):
    """A configuration above makes both runs those of one workspace."""
    (tmp_path / "part").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.fxlens]\n")
    (tmp_path / "part" / "net.py").write_text(RELATIVE.format(asks=asks))
    (tmp_path / "asks").write_text("0")
    (tmp_path / "part" / "asks").write_text("1")
    (tmp_path / "part" / "there").touch()
    kept = str(tmp_path / "kept")

    def codes(folder: Path) -> list[str]:
        path = os.path.relpath(tmp_path / "part" / "net.py", folder)
        done = fxlens("check", path, "--quick", "--format", "json", cwd=folder, XDG_CACHE_HOME=kept)
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    for _ in range(2):
        assert codes(tmp_path) == []
        assert codes(tmp_path / "part") == ["FX120"]
    assert len([*(tmp_path / "kept" / "fxlens" / "records").iterdir()]) == 2


def test_what_took_too_long_is_done_again_with_more_time(tmp_path: Path):
    from fxlens.checking.cache import Cache
    from fxlens.host.launch import Launch
    from fxlens.ipc.request import Limits, Request
    from fxlens.record import empty_record
    from fxlens.sources.files import began_now

    cache = Cache(Launch(sys.executable), tmp_path / "cache")
    short, long = (Request(str(tmp_path / "net.py"), "text", limits=Limits(seconds)) for seconds in (1.0, 30.0))
    cache.put(short, True, empty_record(short.path), began_now())
    assert cache.get(short, True) is not None and cache.get(long, True) is None
    assert cache.get(Request(short.path, "text", limits=Limits(1.0, memory=1 << 30)), True) is None
