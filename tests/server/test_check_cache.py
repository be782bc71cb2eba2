"""The records that ``fxlens check`` keeps: of unchanged files, until something changes that they came from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from check_command import fxlens


def test_records_of_unchanged_files_are_kept(tmp_path: Path):
    from fxlens.checking.cache import Cache
    from fxlens.host.launch import Launch
    from fxlens.ipc.request import Request
    from fxlens.record import empty_record
    from fxlens.sources.files import began_now

    helper = tmp_path / "helper.py"
    helper.write_text("A = 1\n")
    began = helper.stat().st_ctime_ns + 1
    cache = Cache(Launch(sys.executable), tmp_path / "cache")
    request = Request(str(tmp_path / "net.py"), "text")
    record = {**empty_record(request.path), "files": [str(helper)]}
    assert cache.get(request, True) is None
    cache.put(request, True, record, began)
    assert cache.get(request, True) == record
    now = Cache(Launch(sys.executable), tmp_path / "cache")
    assert now.may_have(request.path, "text") and not now.may_have(request.path, "other")
    (tmp_path / "package").mkdir()
    assert Cache(Launch(sys.executable), tmp_path / "cache").get(request, True) == record
    (tmp_path / "package" / "__init__.py").touch()
    assert Cache(Launch(sys.executable), tmp_path / "cache").get(request, True) is None, (
        "it may come before what was imported"
    )
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


DEPENDENT = """\
import json
import sys
from pathlib import Path

from torch import nn

sys.path.append(str(Path(__file__).parents[1] / "library"))
import elsewhere

ASKS = json.loads((Path(__file__).parent / "config.json").read_text())["asks"]


class Net(nn.Module):
    def forward(self, x):
        return x * len(x) if ASKS or elsewhere.ASKS else x
"""


IN_A_CONSTRUCTOR = """
import os, pathlib
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.asks = READ

    def forward(self, x):
        return x * len(x) if self.asks else x


if __name__ == "__main__":
    Net()
"""


@pytest.mark.parametrize(
    "read",
    [
        "int(open('asks').read())",
        "int(pathlib.Path('asks').read_text())",
        "int(os.read(os.open('asks', os.O_RDONLY), 9))",
    ],
)
def test_what_a_constructor_reads_counts(tmp_path: Path, read: str):
    (tmp_path / "net.py").write_text(IN_A_CONSTRUCTOR.replace("READ", read))
    for asks in (0, 1, 0):
        (tmp_path / "asks").write_text(str(asks))
        done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path)
        assert [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]] == ["FX120"] * asks


def test_what_a_file_reads_and_what_it_imports_from_elsewhere_count(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "library").mkdir()
    (tmp_path / "work" / "net.py").write_text(DEPENDENT)

    def codes(*options: str) -> list[str]:
        check = ("check", "net.py", "--quick", "--format", "json", *options)
        done = fxlens(*check, cwd=tmp_path / "work")
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    for config, module in ((0, 0), (1, 0), (0, 0), (0, 1), (0, 0)):
        (tmp_path / "work" / "config.json").write_text(json.dumps({"asks": config}))
        (tmp_path / "library" / "elsewhere.py").write_text(f"ASKS = {module}\n")
        found = ["FX120"] if config or module else []
        assert codes() == codes("--no-cache") == found, (config, module)


READING = {
    "executed": "exec(open('bad.py').read())",
    "executed by its path": "import runpy; BAD = runpy.run_path('bad.py')['BAD']",
    "loaded by its path": "import importlib.util as u; s = u.spec_from_file_location('bad_', 'bad.py'); "
    "m = u.module_from_spec(s); s.loader.exec_module(m); BAD = m.BAD",
    "imported and taken away": "import sys, bad; BAD = bad.BAD; del sys.modules['bad']",
    "after transformers": "import transformers.configuration_utils as _, pathlib\n"
    "BAD = int(pathlib.Path('bad.txt').read_text())",
    "by numpy": "import numpy; BAD = bool(numpy.loadtxt('bad.txt'))",
    "to be changed": "import builtins; BAD = int(builtins.open('bad.txt', mode='br').read())",
    "after names that no file has": "\nfor name in ('a\\0b', '\\ud800'):\n    try:\n        open(name)\n"
    "    except ValueError:\n        pass\nBAD = int(open(file='bad.txt').read())",
    "pickled": "import copy, pickle; assert pickle.loads(pickle.dumps(open)) is copy.copy(open) is open\n"
    "BAD = int(open('bad.txt').read())",
}


def test_a_workspace_that_is_a_link_is_read_by_either_name(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    code = (
        "import os, sys; from fxlens.worker import read_files; read_files.note([sys.argv[1]])\n"
        "for path in (os.path.join(sys.argv[1], 'a'), os.path.realpath('b')): open(path).close()\n"
        "print([os.path.basename(path) for path in read_files.noted()])"
    )
    for name in "ab":
        (tmp_path / "work" / name).touch()
    command = [sys.executable, "-c", code, str(tmp_path / "link")]
    done = subprocess.run(command, cwd=tmp_path / "link", capture_output=True, text=True, timeout=60)
    assert done.stdout == "['a', 'b']\n", done.stderr


OWN = """\
import os, subprocess, sys
from fxlens.worker import read_files

read_files.note([os.getcwd()])
before = os.listdir()
open("a", "w").close()
os.replace("a", "b")
os.makedirs("c/d")
os.remove("old")
print(read_files.looked_at())
subprocess.run([sys.executable, "-c", "open('e', 'w')"])
print([*read_files.looked_at()])
"""


def test_names_that_the_code_itself_changes_do_not_count(tmp_path: Path):
    """Each execution would make the next one necessary."""
    (tmp_path / "old").touch()
    done = subprocess.run([sys.executable, "-c", OWN], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{{}}\n{[str(tmp_path) + '/']}\n", done.stderr


def test_however_a_file_is_read_it_counts(tmp_path: Path):
    for number, code in enumerate(READING.values()):
        model = "class Net(nn.Module):\n    def forward(self, x):\n        return x * len(x) if BAD else x\n"
        (tmp_path / f"net{number}.py").write_text(f"import os\nfrom torch import nn\n\n{code}\n\n\n{model}")

    def found(*options: str) -> dict[str, list[str]]:
        done = fxlens("check", ".", "--quick", "--format", "json", "--all", *options, cwd=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        files = {Path(each["path"]).stem: each["findings"] for each in json.loads(done.stdout)["files"]}
        return {name: [each["code"] for each in files[f"net{number}"]] for number, name in enumerate(READING)}

    for bad in (0, 1):
        (tmp_path / "bad.py").write_text(f"BAD = {bad}\n")
        (tmp_path / "bad.txt").write_text(f"{bad}\n")
        assert found() == {name: ["FX120"] if bad else [] for name in READING}


TWICE = """\
import fxlib, importlib, os, sys, time
from pathlib import Path
from fxlens.worker import bytecode

bytecode.keep_elsewhere()
module = Path("helper.py")
for value in (1, 2):
    module.write_text(f"VALUE = {value}")
    os.utime(module, (int(module.stat().st_mtime),) * 2)
    importlib.invalidate_caches()
    assert importlib.import_module("helper").VALUE == value
    del sys.modules["helper"]
bytecode._SETTLED = 0.1
time.sleep(1.2)
importlib.import_module("helper")
assert list(Path("cache").rglob("helper.*.pyc"))
del sys.modules["helper"]
before = module.stat().st_mtime
module.write_text("VALUE = 3")
os.utime(module, (before, before))
assert importlib.import_module("helper").VALUE == 3
"""


def test_two_saves_within_a_second_are_two(tmp_path: Path):
    """Python compares whole seconds and the size, so there is bytecode of settled files only.  Programs that unpack
    or copy set a file's time, so it is not the one that counts."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert len([*(tmp_path / "cache").rglob("helper.*.pyc")]) == 1


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


LOOKING = [
    "os.path.exists('weights/best.pt')", "pathlib.Path(__file__).with_name('weights').is_dir()",
    "os.access('weights/best.pt', os.R_OK)", "os.path.isfile(b'weights/best.pt')", "os.path.lexists('weights/best.pt')",
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "there", "comes"),
    [
        ("import importlib.util\nTHERE = importlib.util.find_spec('fast') is not None", "", "src/fast.py"),
        ("import importlib.util\nTHERE = importlib.util.find_spec('fast') is not None", "", "fast.so"),
        ("import glob\nTHERE = len(glob.glob('conf/*.yaml')) > 1", "conf/a.yaml", "conf/b.yaml"),
        ("import os\nTHERE = any(each.is_dir() for each in os.scandir('conf'))", "conf/a", "conf/a/b"),
        ("import kit\nTHERE = kit.THERE", "kit.py", "kit/__init__.py"),
        *((f"import os, pathlib\nTHERE = {look}", "", "weights/best.pt") for look in LOOKING),
    ],
    ids=[
        "a folder that was not there",
        "compiled",
        "listed",
        "a file that becomes a folder",
        "a package beside the module",
        *LOOKING,
    ],
)
def test_names_that_come_count(tmp_path: Path, line: str, there: str, comes: str):
    model = "class Net(nn.Module):\n    def forward(self, x):\n        return x * (len(x) if THERE else 2)\n"
    (tmp_path / "net.py").write_text(f"from torch import nn\n{line}\n\n\n{model}")
    if there:
        (tmp_path / there).parent.mkdir(exist_ok=True)
        (tmp_path / there).write_text("THERE = False\n")

    def codes() -> list[str]:
        done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path)
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    assert codes() == []
    if (tmp_path / comes).parent.is_file():
        (tmp_path / there).unlink()
    (tmp_path / comes).parent.mkdir(exist_ok=True)
    (tmp_path / comes).write_text("THERE = True\n")
    assert codes() == ["FX120"]


SUBMODULE = """\
from torch import nn
from kit.layers import Act


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = Act()

    def forward(self, x):
        return self.act(x)
"""
ACT = "from torch import nn\n\n\nclass Act(nn.Module):\n    def forward(self, x):\n        return x * len(x)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kit/", "kit/layers.py"),
        ("kit/README", "kit/layers.py"),
        ("", "kit/layers.py"),
        ("kit/layers/README", "kit/layers/__init__.py"),
    ],
    ids=["not fetched", "without code", "absent", "a folder that becomes a package"],
)
def test_what_a_placeholder_stood_for_counts_once_it_is_there(tmp_path: Path, before: str, after: str):
    """As a git submodule that is fetched."""
    (tmp_path / "net.py").write_text(SUBMODULE)
    (tmp_path / before).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / "kit").mkdir() if before == "kit/" else before and (tmp_path / before).write_text("")

    def codes() -> set[str]:
        done = fxlens("check", "net.py", "--quick", "--all", "--format", "json", cwd=tmp_path)
        return {each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]}

    assert "FX311" in codes()
    (tmp_path / after).parent.mkdir(exist_ok=True)
    (tmp_path / after).write_text(ACT)
    assert codes() == {"FX120"}


READS = """\
import os

from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * (len(x) if %s else 2)
"""


@pytest.mark.parametrize("read", ["os.environ['WIDE'] == '1'", "os.getenv('WIDE') == '1'", "'WIDER' in os.environ"])
def test_environment_variables_count_if_they_are_read(tmp_path: Path, read: str):
    (tmp_path / "net.py").write_text(READS % read)

    where = tmp_path / "kept"
    check = ("check", "net.py", "--quick", "--format", "json")

    def codes(**variables: str) -> list[str]:
        done = fxlens(*check, cwd=tmp_path, XDG_CACHE_HOME=str(where), **{"WIDE": "0", "OTHER": "0", **variables})
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    def kept() -> list[tuple[Path, int]]:
        return [(path, path.stat().st_mtime_ns) for path in where.rglob("*.json")]

    assert codes() == []
    assert codes(WIDE="1", WIDER="") == ["FX120"]
    before = kept()
    assert codes(WIDE="1", WIDER="", OTHER="1") == ["FX120"]
    assert kept() == before


COPIES = [
    "dict(os.environ).get('TEMPERATURE')", "[k for k in os.environ if k.startswith('TEMPER')]", "os.environ.copy()",
]  # fmt: skip


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_the_environment_reads_all_of_it(tmp_path: Path, copy: str):
    text = READS % "COPY.get('TEMPERATURE')" if copy.endswith("copy()") else READS % copy
    (tmp_path / "net.py").write_text(text.replace("\n\n\n", f"\n\nCOPY = {copy}\n\n\n"))
    for set_to, codes in (({}, []), ({"TEMPERATURE": "1"}, ["FX120"])):
        done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path, **set_to)
        assert [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]] == codes


FIRST = """\
import json, os
from torch import nn

if not os.path.exists("config.json"):
    with open("config.json", "w") as file:
        json.dump({"asks": 0}, file)
ASKS = json.load(open("config.json"))["asks"]


class Net(nn.Module):
    def forward(self, x):
        return x * (len(x) if ASKS else 2)
"""


def test_a_configuration_that_the_code_has_written_itself_counts_once_it_is_edited(tmp_path: Path):
    (tmp_path / "net.py").write_text(FIRST)
    for asks, codes in ((None, []), (1, ["FX120"]), (0, [])):
        if asks is not None:
            (tmp_path / "config.json").write_text(json.dumps({"asks": asks}))
        done = fxlens("check", "net.py", "--quick", "--format", "json", cwd=tmp_path)
        assert [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]] == codes
