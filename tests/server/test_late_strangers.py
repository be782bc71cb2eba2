"""What further repositories lean on: tables with values that are computed from data, layers that are scripted in a
constructor, models around models, and packages whose folder is empty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from fxlens.worker import user_file
from fxlens.worker.assume import sandbox

HEAD = "import torch\nfrom torch import nn\n"
FILES = {
    # a table of which one value comes from the data
    "tables.py": HEAD
    + """

class Tables(nn.Module):
    def __init__(self, net_params):
        super().__init__()
        self.embedding = nn.Embedding(net_params["in_dim"], net_params["hidden_dim"])
        self.head = nn.Linear(net_params["hidden_dim"], net_params["n_classes"])

    def forward(self, x):
        return self.head(self.embedding(x))
""",
    "train.py": """import json

import torch
from data import load
from tables import Tables

with open("params.json") as file:
    net_params = json.load(file)["net_params"]
dataset = load()
net_params["in_dim"] = torch.unique(dataset.train[0][0].data["feat"], dim=0).size(0)
net_params["n_classes"] = torch.unique(dataset.train[0][1], dim=0).size(0)
model = Tables(net_params)
""",
    "params.json": '{"net_params": {"hidden_dim": 24, "kind": "plain"}}',
    # layers that are scripted while a model is constructed, and refuse some arguments; models around models
    "scripted.py": HEAD
    + """

class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.register_buffer("scale", torch.ones(size))

    def forward(self, x):
        return x * self.scale * self.size[0]


class Base(nn.Module):
    def __init__(self, obs_shape, normalize):
        super().__init__()
        self.norm = torch.jit.script(Scale(obs_shape)) if normalize else nn.Identity()


class AroundNetwork(Base):
    def __init__(self, actor_network, **kwargs):
        super().__init__(**kwargs)
        self.network = actor_network

    def is_recurrent(self):
        return self.network.is_recurrent()

    def forward(self, x):
        return self.network(self.norm(x))


class BesideNetwork(Base):
    def __init__(self, critic_network, **kwargs):
        super().__init__(**kwargs)
        self.network = critic_network

    def is_recurrent(self):
        return self.network.is_recurrent()

    def forward(self, x):
        return self.network(self.norm(x))
""",
    # a git submodule that was not fetched
    "sparse.py": HEAD
    + """from fxlens_empty_engine import Convolution, Linear


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Convolution(4, 8)

    def forward(self, x):
        return self.layer(x)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, x):
        return self.layer(x)
""",
    "guarded.py": HEAD
    + """
try:
    from fxlens_empty_engine import Linear
except ImportError:
    Linear = nn.Linear


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Linear(4, 8)

    def forward(self, x):
        return self.layer(x)
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By path and name of the class, what one run of the command says of it; and the findings of each file by its
    path."""
    folder = tmp_path_factory.mktemp("late")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "fxlens_empty_engine").mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    command = [sys.executable, "-m", "fxlens", "check", ".", "--quick", "--all", "--format", "json", "--jobs", "2"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    found: dict[str, Any] = {}
    for file in json.loads(done.stdout)["files"]:
        path = file["path"].removeprefix("./")
        found[path] = file["findings"]
        found.update({f"{path}::{each['name']}": each for each in file["targets"]})
    return found


def test_of_a_table_what_is_computed_from_data_is_assumed(checked: dict[str, Any]):
    said = checked["tables.py::Tables"]
    assert (said["status"], said["construct"]["source"]) == ("traced", "assumed")
    assert "'hidden_dim': 24" in said["construct"]["text"] and "torch.unique" not in said["construct"]["text"]


@pytest.mark.parametrize("name", ["AroundNetwork", "BesideNetwork"])
def test_a_model_around_a_model_is_given_something_else(checked: dict[str, Any], name: str):
    said = checked[f"scripted.py::{name}"]
    assert said["status"] in ("traced", "partial"), said["reason"]
    assert said["construct"]["text"].count("_network=") == 1


def test_what_could_not_be_scripted_is_scripted_anew(tmp_path):
    """torch keeps the type of a module that it could not script, and refuses the next one of that type."""
    (tmp_path / "scripted.py").write_text(FILES["scripted.py"])
    namespace = user_file.load(str(tmp_path / "scripted.py"), FILES["scripted.py"], str(tmp_path), {})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not subscriptable"), sandbox.trial(10.0):
            torch.jit.script(namespace.Scale(8))


def test_an_empty_folder_is_no_package(checked: dict[str, Any]):
    assert "fxlens_empty_engine cannot be imported" in checked["sparse.py::Sparse"]["reason"]
    assert checked["sparse.py::Dense"]["status"] == "traced"
    assert any(each["code"] == "FX311" and "fxlens_empty_engine" in each["message"] for each in checked["sparse.py"])
    assert checked["guarded.py::Guarded"]["status"] == "traced"
