"""Constructions and inputs from a project's tests: resolved, and in pairs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens.sources import from_tests, targets
from lsp_client import Client
from warm_python import warm_fxlens

ERROR, WARNING = 1, 2
MODELS = """import torch
from torch import nn

SCALE = 2


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x, mask):
        return self.layers(x) * mask
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "models" / "__init__.py").write_text("from .net import Net\n")
    (tmp_path / "models" / "net.py").write_text(MODELS)
    return tmp_path


def found(project: Path, text: str = MODELS) -> tuple[targets.Target, list[str]]:
    path = project / "models" / "net.py"
    tree = ast.parse(text)
    (target,) = targets.find(tree, text)
    read = lambda name: Path(name).read_text(encoding="utf-8")  # noqa: E731
    used = from_tests.add([target], tree, str(path), str(project), read)
    return target, [Path(name).name for name in used]


def pairs(target: targets.Target) -> list[tuple[str, str | None]]:
    """Inputs and the construction they belong to."""
    return [(source.text, source.made) for source in target.inputs]


CALL = "Net(4, depth=2)"
TENSORS = "torch.randn(3, 4), torch.ones(4)"


@pytest.mark.parametrize(
    "test",
    [
        "import torch\nfrom models.net import Net\n\ndef test():\n    net = Net(4, depth=2).eval()\n"
        "    assert net(torch.randn(3, 4), torch.ones(4)).sum()\n",
        "import torch\nfrom models import Net as Model\nWIDTH = 4\n\ndef test():\n    x = torch.randn(3, WIDTH)\n"
        "    out = Model(WIDTH, depth=2)(x, torch.ones(4))\n",
        "import torch\nimport models.net as m\n\ndef test():\n    net = m.Net(4, depth=2)\n"
        "    net.forward(torch.randn(3, 4), torch.ones(4))\n",
        "import pytest, torch\nfrom models import net\n\n"
        "@pytest.fixture\ndef model():\n    return net.Net(4, depth=2)\n\n"
        "@pytest.fixture\ndef x():\n    made = torch.randn(3, 4)\n    yield made\n\n"
        "def test(model, x):\n    model(x, torch.ones(4))\n",
        "import torch, unittest\nfrom ..models.net import Net\n\nclass TestNet(unittest.TestCase):\n"
        "    def setUp(self):\n        self.net = Net(4, depth=2)\n        self.x = torch.randn(3, 4)\n\n"
        "    def test_it(self):\n        self.net(self.x, torch.ones(4))\n",
        "import pytest, torch\nfrom models.net import *\n\n@pytest.mark.parametrize('width, rows', [(4, 3), (8, 1)])\n"
        "def test(width, rows):\n    net = Net(width, depth=2)\n    net(torch.randn(rows, width), torch.ones(width))\n",
    ],
    ids=["call", "alias", "module", "fixtures", "unittest", "parametrize"],
)
def test_ways_to_write_a_test(project: Path, test: str):
    (project / "tests" / "unit" / "test_net.py").write_text(test)
    target, used = found(project)
    assert [(source.text, source.source) for source in target.construct] == [(CALL, "test")]
    assert pairs(target) == [(TENSORS, CALL)] and used == ["test_net.py"]
    assert target.inputs[0].file == str(project / "tests" / "unit" / "test_net.py")


@pytest.mark.parametrize(
    "test",
    [
        "from models.net import Net\n\ndef test(config):\n    net = Net(config.width, 2)\n    net(load('x'), None)\n",
        "from other import Net\n\ndef test():\n    Net(4, 2)\n",
        "from models.net import Net\nwidth = read_width()\n\ndef test():\n    Net(width, 2)\n",
        "from models.net import Net\n\ndef test(:\n    Net(4, 2)\n",
    ],
    ids=["unknown values", "another class", "own function", "no Python"],
)
def test_what_cannot_be_told_is_left_out(project: Path, test: str):
    (project / "tests" / "test_net.py").write_text(test)
    target, used = found(project)
    assert target.construct == [] and target.inputs == [] and used == []


@pytest.mark.parametrize(
    ("place", "imports", "is_it"),
    [
        ("tests", "from other.net import Net", False),
        ("tests", "import other.net as net; Net = net.Net; from models.net import Net", True),
        ("other/tests", "from ..net import Net", False),
        ("models/tests", "from ..net import Net", True),
        ("tests", "from other import net; Net = net.Net", False),
        ("tests", "from elsewhere.net import Net", True),
    ],
)
def test_a_class_of_the_same_name_in_another_package_is_another_class(
    project: Path, place: str, imports: str, is_it: bool
):
    (project / "other").mkdir()
    (project / "other" / "net.py").write_text(MODELS)
    (project / place).mkdir(exist_ok=True)
    (project / place / "test_net.py").write_text(f"{imports}\n\ndef test():\n    Net(4, depth=2)\n")
    target, _ = found(project)
    assert [source.text for source in target.construct] == [CALL] * is_it


def test_the_construction_that_is_called_comes_first_and_the_file_itself_before_tests(project: Path):
    test = "import torch\nfrom models.net import Net\n\ndef test():\n    Net(1, 1)\n    net = Net(4, depth=2)\n"
    (project / "tests" / "test_net.py").write_text(f"{test}    net(torch.randn(3, 4), torch.ones(4))\n")
    target, _ = found(project)
    assert [source.text for source in target.construct] == [CALL, "Net(1, 1)"]
    target, _ = found(project, f"{MODELS}\n\nnet = Net(6, 1)\n")
    assert [source.source for source in target.construct] == ["instance", "call", "test", "test"]
    text = f"{MODELS}\n\nnet = Net(6, 1)\nnet(torch.ones(6), torch.ones(6))\n"
    target, used = found(project, text)
    assert used == [] and all(source.source != "test" for source in target.inputs)


def test_check_traces_with_what_the_tests_say(project: Path):
    test = "import torch\nfrom models.net import Net\n\ndef test():\n    net = Net(4, depth=2)\n"
    (project / "tests" / "test_net.py").write_text(f"{test}    net(torch.randn(3, 4), torch.ones(4))\n")
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "json", "models")
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=280)
    files = {Path(file["path"]).name: file for file in json.loads(done.stdout)["files"]}
    assert [(t["name"], t["status"]) for t in files["net.py"]["targets"]] == [("Net", "traced")]
    assert files["net.py"]["findings"] == []


def test_a_record_holds_while_no_test_says_anything_new(tmp_path: Path):
    from fxlens.checking.cache import Cache
    from fxlens.host.launch import Launch
    from fxlens.ipc.request import Request
    from fxlens.record import empty_record
    from fxlens.sources.files import began_now

    (tmp_path / "tests").mkdir()
    request = Request(str(tmp_path / "net.py"), MODELS, folder=str(tmp_path))
    record = {**empty_record(request.path), "asked": ["Net"]}

    def cache() -> Cache:
        return Cache(Launch(sys.executable), tmp_path / "cache")

    cache().put(request, True, record, began_now())
    (tmp_path / "tests" / "test_other.py").write_text("from other import Gate\n")
    assert cache().get(request, True) == record, "a test of something else"
    for text in ("from net import Net\n", "from net import Net\n\nNet(3)\n"):
        (tmp_path / "tests" / "test_net.py").write_text(text)
        assert cache().get(request, True) is None, "a test that is new, or says something else"
        cache().put(request, True, record, began_now())
        assert cache().get(request, True) == record
    (tmp_path / "tests" / "test_net.py").unlink()
    assert cache().get(request, True) is None
    alone = Request(request.path, "says all itself", folder=str(tmp_path))
    cache().put(alone, True, {**record, "asked": []}, began_now())
    (tmp_path / "tests" / "test_net.py").write_text("from net import Net\n")
    assert cache().get(alone, True) is not None


def test_a_new_test_traces_the_open_model_again(shared: Client, folder: Path):
    model, test = folder / "net.py", folder / "tests" / "test_net.py"
    model.write_text(MODELS.replace("* mask", "* len(mask)"))
    test.parent.mkdir()
    with shared.lent(deadline=60) as client:
        uri = client.open(model)
        wait_for(client, uri, ["FX120"], WARNING)  # of an assumed construction
        test.write_text("import torch\nfrom net import Net\n\n\ndef test_it():\n    Net(4, 2)(torch.ones(4), [1])\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": test.as_uri(), "type": 1}]})
        wait_for(client, uri, ["FX120"])


def test_a_test_that_is_written_while_the_model_is_traced_is_not_missed(shared: Client, folder: Path):
    model, test, started, go = (folder / name for name in ("net.py", "test_net.py", "started", "go"))
    wait = f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\n"
    wait += f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    model.write_text(wait + MODELS.replace("* mask", "* len(mask)"))
    with shared.lent(deadline=60) as client:
        uri = client.open(model)
        while not started.exists():
            time.sleep(0.01)
        test.write_text("import torch\nfrom net import Net\n\n\ndef test_it():\n    Net(4, 2)(torch.ones(4), [1])\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": test.as_uri(), "type": 1}]})
        client.request("fxlens/status", {"uri": uri})  # it has been taken note of
        go.touch()
        wait_for(client, uri, ["FX120"])


def wait_for(client: Client, uri: str, codes: list[str], severity: int = ERROR) -> None:
    """Until the problems are these; what was on its way before may come first."""
    while [(each.get("code"), each["severity"]) for each in client.diagnostics(uri)] != [(c, severity) for c in codes]:
        continue
