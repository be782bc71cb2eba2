"""Third-party repositories whose imports, files, programs and base classes are missing here; their classes are judged
nevertheless."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from construction_styles import layered
from warm_python import warm_fxlens

HEAD = "import torch\nfrom torch import nn\n"
FILES = {
    # a statement of another file that reads data
    "data/__init__.py": "from .coco import Coco\n\nclasses = 4\n",
    "data/coco.py": "LABELS = open('/nowhere/labels.txt').read()\n\n\nclass Coco:\n    labels = LABELS\n",
    "detector.py": HEAD
    + """from data import Coco, classes


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(x)
""",
    # options that exist only under the main guard
    "script.py": HEAD
    + """import argparse


class Layer(nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features)
        self.rate = args.rate

    def widen(self):
        return wide

    def forward(self, x):
        return super().forward(x) * self.rate


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("data", help="a folder")
    args = parser.parse_args()
    torch.nn.ReLU.forward = None
    wide = open("trained", "w").list()
    open("trained", "w").write("never")
""",
    # one that raises before it comes to its options, which a data class holds
    "late.py": HEAD
    + """from dataclasses import dataclass, field

import tyro

TABLE = open("nowhere.csv").read()


@dataclass
class Args:
    sizes: list = field(default_factory=lambda: [8, 4])


class Late(nn.Module):
    def forward(self, x):
        return torch.relu(x) * args.sizes[0]


if __name__ == "__main__":
    args = tyro.cli(Args)
""",
    # a mistake, and nothing but a mistake
    "mistake.py": HEAD
    + """

class Mistake(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layr(x)
""",
    # a statement that fails wherever the file runs, between classes
    "unnamed.py": HEAD
    + """

class Before(nn.Module):
    def forward(self, x):
        return x + 1


WIDTH = widths_of_nobody[0]


class Behind(nn.Module):
    def forward(self, x):
        return x + 2
""",
    # what a program would have to import itself
    "kit/__init__.py": "",
    "kit/train.py": "open('trained', 'w').write('never')\nraise SystemExit(3)\n",
    "asks.py": HEAD
    + """import fxlens_no_such_package
import kit

VALUE = kit.train


class Asks(nn.Module):
    def forward(self, x):
        return x
""",
    # another framework
    "other.py": """import megengine.module as M


class Darknet(M.Module):
    def forward(self, x):
        return x
""",
    # a folder with the name of the package that its file needs
    "ops/triton/norm.py": HEAD
    + """import triton
import triton.language as tl

NEW = triton.__version__ >= "2.0"


@triton.autotune(configs=[1], key=["n"])
@triton.jit
def kernel(x, n: tl.constexpr):
    pass


SMALLEST = [each for each in kernel.configs]


class Norm(nn.Module):
    def forward(self, x):
        return x / x.norm()
""",
    # a guard that ends all the same
    "guarded.py": HEAD
    + """try:
    from fxlens_no_such_package import tabulate
except ImportError:
    print("install it")
    raise


class Plain(nn.Module):
    def forward(self, x):
        return x + 1
""",
    # a configuration that lies elsewhere
    "configs/tiny.yaml": "width: 12\n",
    "configured.py": HEAD
    + """import yaml


class Configured(nn.Module):
    def __init__(self, cfg="tiny.yaml"):
        super().__init__()
        with open(cfg) as file:
            self.layer = nn.Linear(yaml.safe_load(file)["width"], 4)

    def forward(self, x):
        return self.layer(x)
""",
    # Lightning and torchmetrics
    "lightning_model.py": HEAD
    + """import argparse
import inspect

import lightning.pytorch as pl
from lightning.pytorch.utilities.parsing import get_init_args
from torchmetrics import Metric


class Error(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")


class Given(pl.LightningModule):
    def __init__(self, hparams=argparse.Namespace(wide=8), drop=None):
        super().__init__()
        self.save_hyperparameters(hparams)
        self.layer = nn.Linear(self.hparams.wide, 1)
        self.hparams = hparams

    def forward(self, x):
        return self.layer(x)


class Forecaster(pl.LightningModule):
    def __init__(self, width: int = 8, loss=Error()):
        super().__init__()
        known = get_init_args(inspect.currentframe())
        self.save_hyperparameters({name: known[name] for name in known if name not in self.hparams})
        self.layer = nn.Linear(self.hparams.width, 1)

    def forward(self, x):
        return self.layer(x)
""",
    # keywords that are handed on and given, too
    "shards.py": HEAD
    + """

class Base(nn.Module):
    def __init__(self, kind, width, depth=2, **kwargs):
        super().__init__()
        self.layers = nn.Sequential(*(kind(width, width) for _ in range(depth)))


class Shard(Base):
    def __init__(self, place, *args, **kwargs):
        super().__init__(nn.Linear, 16, *args, **kwargs)
        self.place = place

    def forward(self, x):
        return self.layers(x)
""",
    "atari.py": HEAD
    + """

class Atari(nn.Module):
    def __init__(self, c: int, h: int, w: int):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 8, 4, 2), nn.Flatten())
        with torch.no_grad():
            size = self.net(torch.zeros(1, c, h, w)).shape[1]
        self.out = nn.Linear(size, 4)

    def forward(self, x):
        return self.out(self.net(x))
""",
    # helpers of packages that are not there
    "helped.py": HEAD
    + """from mmcv.utils import Registry, build_from_cfg
from ultralytics.utils import LOGGER, colorstr
from timm.layers.helpers_of_old import make_divisible as near
from ultralytics.utils.ops import make_divisible

LAYERS = Registry("layers")
LAYERS.register_module(name="Wide", module=nn.Linear)


class Helped(nn.Module):
    def __init__(self):
        super().__init__()
        LOGGER.info(f"{colorstr('bold', 'made')} {self}")
        width = make_divisible(13, 8)
        assert (width, near(11, 8), near(11, 8, round_limit=0.0)) == (16, 16, 8)
        self.layer = build_from_cfg(dict(type="Wide", in_features=width, out_features=4), LAYERS)

    def forward(self, x):
        return self.layer(x)
""",
    # an example that is there to fail
    "strict.py": HEAD
    + layered(
        "Strict",
        "if width > 100:",
        "    raise ValueError(width)",
        "self.layer = nn.Linear(width, 1)",
        parameters=", width",
    ),
    "tests/test_strict.py": """import pytest
from strict import Strict


def test_it():
    with pytest.raises(ValueError):
        Strict(101)
""",
    # what fails in a normal run, too
    "ensemble.py": HEAD
    + """

class Ensemble(nn.ModuleList):
    def forward(self, x):
        return torch.cat([module(x) for module in self], 1)


def load():
    model = Ensemble()
    return model
""",
    "setup.py": "import sys\n\nfrom torch.utils.cpp_extension import BuildExtension as Base\n\n\nclass Build(Base):\n"
    "    pass\n\n\nsys.exit('usage')\n",
    # torch.fx refuses the check; what it compares is None in the example only
    "rates.py": HEAD
    + """

# fxlens: Rates() <- torch.randn(2, 3)
class Rates(nn.Module):
    def forward(self, x, rate: int = None):
        if rate is None:
            rate = 8
        assert rate == 8
        return x * 2
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By path, what one run of the command says of each file."""
    folder = tmp_path_factory.mktemp("strangers")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    command = warm_fxlens("check", ".", "--quick", "--all", "--format", "json", "--jobs", "2")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert not (folder / "trained").exists()
    return {file["path"].removeprefix("./"): file for file in json.loads(done.stdout)["files"]}


JUDGED = {
    "detector.py": "Detector", "script.py": "Layer", "ops/triton/norm.py": "Norm", "guarded.py": "Plain",
    "configured.py": "Configured", "lightning_model.py": "Forecaster", "shards.py": "Shard", "atari.py": "Atari",
    "helped.py": "Helped", "strict.py": "Strict", "late.py": "Late",
}  # fmt: skip


@pytest.mark.parametrize("path", JUDGED)
def test_judged(checked: dict[str, Any], path: str):
    statuses = {each["name"]: each["status"] for each in checked[path]["targets"]}
    assert statuses[JUDGED[path]] == "traced" and set(statuses.values()) <= {"traced", "skipped"}
    assert not [each for each in checked[path]["findings"] if each["severity"] in ("error", "warning")]


def test_it_is_said_what_was_left_out(checked: dict[str, Any]):
    (found,) = checked["detector.py"]["findings"]
    assert found["code"] == "FX311"
    assert "The statement at line 1 of coco.py was left out, since it raises FileNotFoundError" in found["message"]


def test_the_configuration_is_named(checked: dict[str, Any]):
    (target,) = checked["configured.py"]["targets"]
    assert target["construct"]["text"] == "Configured(cfg='configs/tiny.yaml')"


def test_other_frameworks_are_left_alone(checked: dict[str, Any]):
    assert not checked.get("other.py", {"targets": []})["targets"]


def test_what_is_there_to_fail_is_no_example(checked: dict[str, Any]):
    (target,) = checked["strict.py"]["targets"]
    assert target["construct"]["source"] == "assumed"


def test_what_fails_in_a_normal_run_is_no_error_of_tracing(checked: dict[str, Any]):
    assert [(each["code"], each["severity"]) for each in checked["ensemble.py"]["findings"]] == [("FX199", "info")]
    assert [(each["code"], each["severity"]) for each in checked["setup.py"]["findings"]] == [("FX306", "info")]


def test_a_mistake_stays_one(checked: dict[str, Any]):
    assert [(each["code"], each["severity"]) for each in checked["mistake.py"]["findings"]] == [("FX199", "error")]
    assert {each["status"] for each in checked["unnamed.py"]["targets"]} == {"traced"}
    assert [(each["code"], each["severity"]) for each in checked["unnamed.py"]["findings"]] == [("FX301", "error")]
    assert {"FX301", "FX311"} >= {each["code"] for each in checked["asks.py"]["findings"]} >= {"FX301"}


def test_data_that_appears_is_seen(tmp_path: Path):
    (tmp_path / "helper.py").write_text("import json\n\nSIZES = json.load(open('sizes.json'))\n")
    net = "import helper\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    (tmp_path / "net.py").write_text(HEAD + net)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = warm_fxlens("check", "net.py", "--quick", "--format", "json")

    def codes() -> list[str]:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        return [each["code"] for each in json.loads(done.stdout)["files"][0]["findings"]]

    assert codes() == ["FX311"]
    (tmp_path / "sizes.json").write_text("[4]")
    assert codes() == []


def test_a_check_of_what_a_normal_run_replaces_is_reported_once(checked: dict[str, Any]):
    assert sorted(each["code"] for each in checked["rates.py"]["findings"]) == ["FX104", "FX201"]
