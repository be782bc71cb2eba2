"""Looking at a model changes none of the user's files, however the project constructs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_fxlens

NET = """import os, pathlib, tempfile
import numpy as np
import torch
from torch import nn


class Log:
    def __init__(self, path):
        self.file = open(path, "w")


class Net(nn.Module):
    def __init__(self, log=None):
        super().__init__()
        self.log = [log]
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x)
"""
MAIN = "\n\nif __name__ == '__main__':\n    "
TEST = "import torch\nfrom net import Log, Net\n\n\ndef test_net():\n    Net(Log('data'))(torch.ones(1, 3))\n"


@pytest.mark.parametrize(
    "files",
    [
        {"net.py": f"{NET}{MAIN}net = Net(Log('data'))\n    net(torch.ones(1, 3))\n"},
        {"net.py": f"{NET}{MAIN}x = np.memmap('data', mode='w+', shape=(1, 3))\n    Net()(torch.from_numpy(x))\n"},
        {"net.py": f"{NET}{MAIN}net = Net(torch.from_file('data', shared=True, size=4096))\n"},
        {"net.py": NET, "tests/test_net.py": TEST},
        {"net.py": NET.replace("self.log = [log]", "pathlib.Path('data').unlink(missing_ok=True)")},
        {"net.py": NET.replace("self.log = [log]", "os.replace('data', 'other')")},
        {"net.py": NET.replace("self.log = [log]", "torch.save(1, 'data')")},
    ],
    ids=["main block", "memmap", "from_file", "test", "unlink", "replace", "torch.save"],
)
def test_a_check_leaves_the_users_files_alone(tmp_path: Path, files: dict[str, str]):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data").write_text("precious" * 4)
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "json", "net.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    (file,) = json.loads(done.stdout)["files"]
    assert (tmp_path / "data").read_text() == "precious" * 4, file
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted({"data", *(Path(n).parts[0] for n in files)})


FIXED = """
        if torch.is_tensor(h):
            h = h + torch.zeros(x.shape[0], 3)
        v = h.reshape(-1)
        v *= 2
        for _ in range(len(x)):
            h = h + 1
        return h + v.sum()
"""


@pytest.mark.parametrize("how", [(), ("--captures", "export,compile"), ("--diff",), ("--fix",)])
def test_checking_fixes_and_running_beside_the_graph_leave_them_alone_too(tmp_path: Path, how: tuple[str, ...]):
    text = NET.replace("self.log = [log]", "self.log = [open('data', 'w')]").replace(
        "def forward(self, x):\n        return", "def forward(self, x):\n        h ="
    )
    (tmp_path / "net.py").write_text(text.rstrip() + FIXED)
    (tmp_path / "data").write_text("precious")
    done = subprocess.run(
        warm_fxlens("check", "--no-cache", *how, "net.py"), cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert "not all fixes" not in done.stderr, done.stderr
    assert (tmp_path / "data").read_text() == "precious"
    if "--diff" in how:
        assert "+torch.fx.wrap(" in done.stdout
    elif "--fix" in how:
        assert "torch.fx.wrap(" in (tmp_path / "net.py").read_text()
    else:
        assert "1 of 1 class judged" in done.stdout


def test_what_is_written_for_fx_lens_may_change_files(tmp_path: Path):
    (tmp_path / "net.py").write_text(NET.replace("class Net", "# fxlens: Net(Log('data'))\nclass Net"))
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "json", "net.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    (file,) = json.loads(done.stdout)["files"]
    assert file["targets"][0]["construct"]["text"] == "Net(Log('data'))" and (tmp_path / "data").exists()


def test_a_model_that_writes_while_it_is_constructed_is_judged(tmp_path: Path):
    writing = """os.makedirs("out/logs", exist_ok=True)
        with open("out/logs/new", "x") as file:
            file.write("3")
        with open("data", "a") as file:
            file.write("!")
        torch.save(1, "weights.pt")
        open("state.new", "w").close()
        os.replace("state.new", "state")
        os.remove("state")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/in")
            open(folder + "/in/it", "w").close()
        import pickle
        assert pickle.loads(pickle.dumps(open)) is open
        assert open("data").read() == "precious!" and open("out/logs/new").read() == "3\""""
    (tmp_path / "net.py").write_text(NET.replace("self.log = [log]", writing))
    (tmp_path / "data").write_text("precious")
    command = warm_fxlens("check", "--no-cache", "--quick", "--format", "json", "net.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    (file,) = json.loads(done.stdout)["files"]
    assert [(each["status"], each["construct"]["text"]) for each in file["targets"]] == [("traced", "Net()")], file
    assert (tmp_path / "data").read_text() == "precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "net.py"]
