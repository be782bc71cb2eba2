"""The records that ``fxlens check`` keeps: of unchanged files, until something changes that they came from."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from check_command import fxlens


def test_records_of_unchanged_files_are_kept(tmp_path: Path):
    from fxlens.checking.cache import Cache
    from fxlens.ipc.request import Request
    from fxlens.record import empty_record
    from fxlens.sources.files import began_now

    helper = tmp_path / "helper.py"
    helper.write_text("A = 1\n")
    began = helper.stat().st_ctime_ns + 1
    cache = Cache(sys.executable, tmp_path / "cache")
    request = Request(str(tmp_path / "net.py"), "text")
    record = {**empty_record(request.path), "files": [str(helper)]}
    assert cache.get(request, True) is None
    cache.put(request, True, record, began)
    assert cache.get(request, True) == record
    now = Cache(sys.executable, tmp_path / "cache")
    assert now.may_have(request.path, "text") and not now.may_have(request.path, "other")
    (tmp_path / "package").mkdir()
    assert Cache(sys.executable, tmp_path / "cache").get(request, True) == record
    (tmp_path / "package" / "__init__.py").touch()
    assert Cache(sys.executable, tmp_path / "cache").get(request, True) is None, "it may come before what was imported"
    (tmp_path / "package" / "__init__.py").unlink()
    assert cache.get(request, False) is None
    assert cache.get(Request(request.path, "other"), True) is None
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    helper.write_text("A = 2\n")
    assert cache.get(request, True) is None
    for code in ("FX301", "FX304", "FX305", "FX309"):
        passing = Request(request.path, code)
        cache.put(
            passing,
            True,
            {**record, "findings": [{"code": code, "message": "", "span": None, "target": None}]},
            began_now(),
        )
        assert cache.get(passing, True) is None
    cache.put(request, True, record, began)
    assert cache.get(request, True) is None, "the helper was saved after the check began"
    for path in (tmp_path / "cache").iterdir():
        path.write_text("[broken")
    assert cache.get(request, True) is None


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


OPTIONAL = """\
from torch import nn

try:
    from kit import extras
except ImportError:
    extras = None


class Net(nn.Module):
    def forward(self, x):
        return x if extras is None else extras.act(x)
"""


def test_a_module_that_an_import_looked_for_in_vain_counts_once_it_is_there(tmp_path: Path):
    (tmp_path / "net.py").write_text(OPTIONAL)
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("")

    def codes() -> list[str]:
        done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path)
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    assert codes() == []
    (tmp_path / "kit" / "extras.py").write_text("def act(x):\n    return x * len(x)\n")
    assert codes() == ["FX120"]
    (tmp_path / "kit" / "extras.py").unlink()
    assert codes() == []
