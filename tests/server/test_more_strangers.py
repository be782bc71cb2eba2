"""More features of third-party repositories: constructions of classes, and imports of their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from construction_styles import layered
from strangers import HEAD, judged
from warm_python import warm_fxlens

FILES = {
    # a table that pairs classes with their options
    "encoders.py": HEAD
    + """

class Base(nn.Module):
    def __init__(self, widths, stage):
        super().__init__()
        assert stage == {"kernel": 3}, stage
        self.layers = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))

    def forward(self, x):
        return self.layers(x)


class Encoder(Base):
    def __init__(self, widths, **rest):
        super().__init__(widths, {"kernel": 3}, **rest)


encoders = {"small": {"encoder": Encoder, "weights": {"url": "http://example.org"}, "params": {"widths": (8, 4)}}}
pairs = [(Encoder, {"widths": (8, 16, 4)})]
""",
    # the module beside the file has the name of the package that its program means
    "former/utils/__init__.py": "",
    "former/utils/masking.py": "class Mask:\n    size = 4\n",
    "former/layers/utils.py": "raise_nothing = True\n",
    "former/tools/counting.py": "COUNT = 4\n",
    "former/layers/tools.py": "",
    "former/layers/attention.py": HEAD
    + """from tools.counting import COUNT
from utils.masking import Mask


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(Mask.size, COUNT)

    def forward(self, x):
        return self.layer(x)
""",
    # keywords that go to a layer
    "conv.py": HEAD
    + """

class Conv(nn.Module):
    def __init__(self, *args, causal=False, **kwargs):
        super().__init__()
        self.conv = nn.ConvTranspose1d(*args, **kwargs)

    def forward(self, x):
        return self.conv(x)
""",
    # functions under another name, in a table and in a module
    "nets.py": HEAD
    + """

class Net(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.layer = {"narrow": nn.Linear(width, 4)}[kind]

    def forward(self, x):
        return self.layer(x)


class Trunk(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = {"deep_12": nn.Linear(12, 4)}[kind]

    def forward(self, x):
        return self.layer(x)


class Wrapped(nn.Module):
    def __init__(self, body):
        super().__init__()
        assert body.layer.in_features == 12
        self.body = body

    def forward(self, x):
        return self.body(x)


def build(width):
    return Net(f"nar{'row'}", width)


def trunk(kind):
    return Trunk(kind)
""",
    "train.py": "import nets\nfrom nets import build as build_net\n\nTABLE = {'net': build_net}\nTABLE['net'](6)\n"
    "nets.Wrapped(nets.__dict__['trunk']('deep_12'))\n",
    # data that a test makes, at some length
    "columns.py": HEAD
    + """

class Column:
    def __init__(self, name, size):
        self.name, self.size = name, size


class Wide(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.tables = nn.ModuleDict({each.name: nn.Embedding(each.size, 4) for each in columns})

    def forward(self, x):
        return torch.cat([table(x) for table in self.tables.values()], -1)
""",
    "tests/test_columns.py": """import numpy as np

from columns import Column, Wide


def rows(size):
    return np.array([np.random.randint(0, size) for _ in range(64)])


def data():
    columns, inputs = [], {}
    for at in range(4):
        columns.append(Column(f"c{at}", np.random.randint(1, 10)))
    for each in columns:
        inputs[each.name] = rows(each.size)
        inputs[each.name + "_again"] = rows(each.size)
    return inputs, columns


def test_it():
    inputs, columns = data()
    Wide(columns)
""",
    # one number of a construction that nobody says
    "heads.py": HEAD
    + """

class Heads(nn.Module):
    def __init__(self, kind, heads):
        super().__init__()
        self.first = {"small": nn.Linear(8, 16)}[kind]
        self.head = nn.Linear(16, heads["map"])
        assert heads["kind"][::-1] == "xob"

    def forward(self, x):
        return self.head(self.first(x))


def main(data):
    return Heads("small", {"map": data.num_classes, "kind": "box"})
""",
    # packages that are asked for late, and for everything that they have
    "late.py": HEAD
    + """from fxlens_no_such_package.losses import *


class Late(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        import fxlens_no_other_package.kinds as kinds

        if isinstance(width, kinds.List):
            width = list(width)
        self.loss = Loss(start=4)
        self.layer = nn.Linear(width, 4)

    def forward(self, x):
        return self.layer(x)
""",
    # weights, logs and registries of packages that are not there
    "segmentor.py": HEAD
    + """from mmcv.cnn import UPSAMPLE_LAYERS, build_upsample_layer
from mmcv.runner import load_checkpoint
from mmcv.utils import Registry, build_from_cfg, get_logger

PARTS = Registry("parts")


@UPSAMPLE_LAYERS.register_module()
class Twice(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = nn.Upsample(scale_factor=size)

    def forward(self, x):
        return self.up(x)


@PARTS.register_module()
class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Conv2d(3, width, 1)
        load_checkpoint(self, "weights.pth", logger=get_logger("log"))

    def forward(self, x):
        return self.layer(x)


@PARTS.register_module()
class Segmentor(nn.Module):
    def __init__(self, trunk, up):
        super().__init__()
        self.trunk, self.up = build_from_cfg(trunk, PARTS), build_upsample_layer(up)
        assert self.trunk.layer.out_channels == 24

    def forward(self, x):
        return self.up(self.trunk(x))
""",
    "configs/_base_/models/plain/one.py": "model = dict(type='Segmentor', trunk=dict(type='Trunk', width=24),\n"
    "             up=dict(type='Twice', size=2))\n",
    **{
        f"configs/{name}.py": "_base_ = ['one.py']\nmodel = dict(type='Segmentor', up=dict(size=4))\n"
        for name in "abcdef"
    },
    # a device that is not here
    "placed.py": HEAD
    + """

class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.cuda.set_device(0)
        nn.Linear(2, 2).to(0)
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


if torch.randn(1).device.type == "cpu":
    torch.cuda.set_device(0)
""",
    # what is asked for, and not imported
    "looks.py": HEAD
    + """import importlib.util

HAS = importlib.util.find_spec("fxlens_no_such_package") is not None


class Early(nn.Module):
    def __init__(self):
        super().__init__()
        self.has = HAS
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        if self.has:
            assert x.shape[0] == 3
        return self.layer(x)


class Inside(Early):
    def __init__(self):
        super().__init__()
        self.has = importlib.util.find_spec("fxlens_no_other_package") is not None
""",
    # arguments that are wrong, of what only has the name of a tokenizer
    "words.py": HEAD
    + """

class Vocab:
    def __init__(self, size):
        if size < 1:
            raise ValueError("size must be positive")


# fxlens: Words(0) <- torch.randn(2, 8)
class Words(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.vocab = Vocab(size)
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)
""",
    # a whole model of a package that is not here
    "whole.py": HEAD
    + """from fxlens_no_such_package import hub


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = hub.load_pretrained("vit")

    def forward(self, x):
        return self.encoder(x)
""",
    # options beside a class that are another's
    "tuned.py": HEAD
    + layered("Tuned", "self.layer = nn.Linear(8, width)", parameters=", width")
    + """

experiments = {"first": {"model": Tuned, "optimizer": {"width": 3}}}
""",
    # a tokenizer without its file, and weights that were saved on another device
    "speaker.py": HEAD
    + """import os

from fxlens_no_such_package import absent


class Tokenizer:
    def __init__(self, path):
        assert os.path.isfile(path), path
        self.size = len(open(path).read())


class Speaker(nn.Module):
    def __init__(self, path="vocab.model"):
        super().__init__()
        self.tokenizer = Tokenizer(path)
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


class Counter(Speaker):
    def forward(self, x):
        return self.layer(x) * self.tokenizer.size
"""
    + layered(
        "Fetched",
        "self.layer = nn.Linear(8, 4)",
        "missing, unexpected = self.load_state_dict(torch.hub.load_state_dict_from_url(absent.url))",
    )
    + layered("Scored", "self.layer = nn.Linear(8, 4)", 'self.load_state_dict(torch.load("elsewhere.pth"))'),
}
SAVING = """import torch

torch.serialization.register_package(0, lambda value: "cuda:0", lambda value, place: None)
torch.save(torch.nn.ModuleDict({"layer": torch.nn.Linear(8, 4)}).state_dict(), "elsewhere.pth")
"""


def saving(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", SAVING], cwd=folder, check=True, timeout=120)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES, saving)


JUDGED = {
    "encoders.py::Encoder": "workspace", "encoders.py::Base": "workspace",
    "former/layers/attention.py::Attention": "default", "conv.py::Conv": "assumed", "nets.py::Net": "workspace",
    "nets.py::Wrapped": "workspace", "columns.py::Wide": "workspace", "heads.py::Heads": "assumed",
    "late.py::Late": "default", "placed.py::Placed": "default", "segmentor.py::Segmentor": "workspace",
    "looks.py::Early": "workspace", "looks.py::Inside": "default", "tuned.py::Tuned": "assumed",
    "speaker.py::Speaker": "default", "speaker.py::Scored": "default", "speaker.py::Fetched": "default",
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_judged(checked: dict[str, Any], name: str):
    assert (checked[name]["status"], checked[name]["construct"]["source"]) == ("traced", JUDGED[name])
    assert not [
        each
        for each in checked[name.partition("::")[0]]
        if each["severity"] in ("error", "warning") and each["target"] == name.partition("::")[2]
    ]


def test_a_device_that_is_not_here_is_nobodys_mistake(checked: dict[str, Any]):
    assert [(each["code"], each["severity"]) for each in checked["placed.py"]] == [("FX301", "info")]


def test_a_random_number_is_the_same_everywhere(checked: dict[str, Any]):
    assert checked["columns.py::Wide"]["construct"]["text"].count("5") == 4


def test_who_uses_the_tokenizer_is_told(checked: dict[str, Any]):
    (found,) = [each for each in checked["speaker.py"] if each["target"] == "Counter"]
    assert found["severity"] == "info" and "Tokenizer was created without its file" in found["message"]


def test_wrong_arguments_of_a_tokenizer_are_told(checked: dict[str, Any]):
    (found,) = checked["words.py"]
    assert found["code"] == "FX302" and "size must be positive" in found["message"]


def test_what_loads_a_model_is_no_checkpoint(checked: dict[str, Any]):
    (used,) = [each["message"] for each in checked["whole.py"] if each["target"] == "Whole"]
    assert "fxlens_no_such_package.hub.load_pretrained() is used here" in used


def test_imports_of_constructors_are_told(checked: dict[str, Any]):
    said = [each["message"] for each in checked["late.py"] if each["code"] == "FX311"]
    assert "fxlens_no_such_package" in said[0] and "fxlens_no_other_package" in said[1]


def test_a_module_that_was_taken_from_a_folder_above_is_told(checked: dict[str, Any]):
    (found,) = [each for each in checked["former/layers/attention.py"] if each["code"] == "FX311"]
    taken, hiding = os.path.join("former", "tools"), os.path.join("former", "layers", "tools.py")
    assert f"tools was taken from {taken}, since {hiding} does not define it" in found["message"]
    assert found["severity"] == "info"


def test_a_model_whose_fixes_cannot_be_checked_leaves_the_others_theirs(tmp_path: Path):
    """It is constructed at once, and not in the background, where fixes are checked."""
    (tmp_path / "two.py").write_text(
        HEAD
        + """import traceback


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        if any(each.filename.endswith("verify.py") for each in traceback.extract_stack()):
            raise ValueError("in the background")

    def forward(self, x: torch.Tensor):
        return x / len(x)


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor):
        return torch.relu(torch.relu(self.layer(x))) / len(x)
"""
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = warm_fxlens("check", ".", "--all", "--jobs", "1")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert "fix (not checked: checking Small raises ValueError: in the background): Use x.shape[0]" in done.stdout
    assert "fix: Use x.shape[0]" in done.stdout, "that of the other model"
    assert "took too long" not in done.stdout + done.stderr
