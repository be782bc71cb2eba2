"""Rarer features of third-party repositories: tables inside of configurations, keywords that are read by name,
registries and bases of packages that are not there, weights that nothing can do without."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from fxlens.worker import construct
from fxlens.worker.assume import annotated
from fxlens.worker.assume.places import NOTHING
from strangers import HEAD, judged

LAYER = """        self.layer = nn.Linear({width}, 4)

    def forward(self, x):
        return self.layer(x)
"""
FILES = {
    # keywords that the constructor reads by their names, on one line
    "keywords.py": HEAD
    + """

class Keywords(nn.Module):
    def __init__(self, dim, **kwargs):
        super().__init__()
        sizes = {"width": kwargs["width"], "bias": kwargs["with_bias"]}
        self.layer = nn.Linear(dim, sizes["width"], bias=sizes["bias"])

    def forward(self, x):
        return self.layer(x)
""",
    # a table within a configuration, which nobody says is read
    "stages.py": HEAD
    + """

class Stages(nn.Module):
    def __init__(self, classes=10, spec=None):
        super().__init__()
        assert len(spec["WIDTHS"]) == spec["NUM_STAGES"] == len(spec["KINDS"])
        kinds = {"plain": nn.Linear, "twice": lambda a, b: nn.Sequential(nn.Linear(a, b), nn.Linear(b, b))}
        widths = [16, *spec["WIDTHS"]]
        self.stages = nn.ModuleList(kinds[k](a, b) for k, a, b in zip(spec["KINDS"], widths, widths[1:]))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x)


def build(config):
    return Stages(classes=5, spec=config.MODEL.SPEC)
""",
    "experiments/stages.yaml": "LR: 0.1\nMODEL:\n  NAME: stages\n  SPEC:\n    NUM_STAGES: 3\n    WIDTHS: [24, 48, 96]\n"
    "    KINDS: [plain, twice, plain]\n",
    # a table that is spread over the parameters, of a file that the command line names; others are about other things
    "spread.py": HEAD
    + """import sys

import toml


class Spread(nn.Module):
    def __init__(self, classes, width, depth, kind, dropout=0.0):
        super().__init__()
        layers = {"wide": lambda: nn.Linear(width, width), "thin": lambda: nn.Identity()}
        self.layers = nn.Sequential(*(layers[kind]() for _ in range(depth)), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)


if __name__ == "__main__":
    config = toml.load(sys.argv[1])
    Spread(10, **config["model"])
""",
    "runs/a.toml": '[data]\nwidth = 3\ndepth = 4\nkind = "b"\npath = "c"\n',
    "runs/b.toml": 'seed = 1\n[model]\nwidth = 20\ndepth = 3\nkind = "wide"\n',
    # registries of packages that are not there
    "registered.py": HEAD
    + f"""from fxlens_no_such_package.registry import Registry
from fxlens_no_such_package.utils import ARCHITECTURES

MODELS = Registry("models")


@MODELS.register()
class Registered(nn.Module):
    def __init__(self):
        super().__init__()
{LAYER.format(width=8)}

@ARCHITECTURES.register()
class Entered(nn.Module):
    def __init__(self, name="Registered"):
        super().__init__()
        self.inner = MODELS.get(name)()

    def forward(self, x):
        return self.inner(x)
""",
    # the defaults of the configuration are another model's
    "defaults.py": """from fvcore.common.config import CfgNode

_C = CfgNode()
_C.MODEL = CfgNode()
_C.MODEL.KIND = "two"
_C.MODEL.WIDTH = 24
_C.MODEL.UNUSED = {"a": [1, 2]}
_C.DATA = CfgNode()
_C.DATA.CHANNELS = [3, 3]
_C.SEED = 1


def get_cfg():
    return _C.clone()
""",
    "single.py": HEAD
    + """from fvcore.nn.weight_init import c2_msra_fill

STRIDES = {"two": [2, 1], "one": [2]}


class Single(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        strides = STRIDES[cfg.MODEL.KIND]
        assert len(strides) == 1
        assert (
            len(
                {
                    len(strides),
                    len(cfg.DATA.CHANNELS),
                }
            )
            == 1
        ), "not consistent"
        self.name = "head{}".format(cfg.TASK)
        self.conv = nn.Conv2d(cfg.DATA.CHANNELS[0], cfg.MODEL.WIDTH, 1, strides[0])
        c2_msra_fill(self.conv)

    def forward(self, x):
        return self.conv(x)
""",
    # a configuration library that is not there
    "readonly.py": HEAD
    + f"""from omegaconf import OmegaConf

BASE = OmegaConf.merge(OmegaConf.create({{"net": {{"width": 4, "depth": 1}}}}), {{"net": {{"width": 12}}}})


class ReadOnly(nn.Module):
    def __init__(self, config):
        super().__init__()
        OmegaConf.set_readonly(config, True)
        assert config.net.depth == 1
{LAYER.format(width="config.net.width")}

model = ReadOnly(BASE)
""",
    # a class whose statement raises, and one that comes after it
    "halved.py": HEAD
    + f"""

class Lost(nn.Module):
    names = open("no_such_names.txt").read()

    def forward(self, x):
        return x


class There(nn.Module):
    def __init__(self):
        super().__init__()
{LAYER.format(width=8)}""",
    # a script beside a package of its name
    "fit/__init__.py": "WIDTH = 12\n",
    "fit.py": HEAD
    + f"""from fit import WIDTH


class Fit(nn.Module):
    def __init__(self):
        super().__init__()
{LAYER.format(width="WIDTH")}""",
    # the configuration of a documentation
    "docs/conf.py": """import sys
from unittest.mock import MagicMock


class Mock(MagicMock):
    @classmethod
    def __getattr__(cls, name):
        return MagicMock()


sys.modules.update((name, Mock()) for name in ["torch", "torch.nn", "pandas"])
""",
    # weights that a filter makes a plain dict of
    "pretrained.py": HEAD
    + f"""from torch.utils import model_zoo


def load_pretrained(model, classes=10):
    state = model_zoo.load_url("https://example.org/weights.pth")
    state = {{key: value for key, value in state.items()}}
    if state["layer.weight"].shape[0] != classes:
        del state["layer.weight"]
    model.load_state_dict(state)


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        load_pretrained(self.net, classes=4)

    def forward(self, x):
        return self.net(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
{LAYER.format(width=8)}""",
    # a number would become a complex one
    "noise.py": HEAD
    + """

class Noise(nn.Module):
    def __init__(self, alphas):
        super().__init__()
        self.register_buffer("sigmas", ((1 - alphas) / alphas) ** 0.5)

    def forward(self, x):
        return x * self.sigmas[0]
""",
    # options that each network adds to, and networks that are found by the name of their file
    "finding/settings.py": """import argparse

import networks


class Settings:
    def __init__(self):
        self.ready = False

    def declare(self, parser):
        parser.add_argument("--kind", default="deep_wide")
        parser.add_argument("--style", default="plain")
        parser.add_argument("--width", type=int, default=24)
        self.ready = True
        return parser

    def gather(self):
        if not self.ready:
            parser = self.declare(argparse.ArgumentParser())
        found, _ = parser.parse_known_args()
        extend = networks.extender(found.kind)
        parser = extend(parser, True)
        return parser.parse_args()

    def parse(self):
        found = self.gather()
        found.total = found.width * 2
        return found
""",
    "finding/networks/__init__.py": """import importlib

from torch import nn


def find(kind):
    module = importlib.import_module("networks." + kind + "_network")
    wanted = kind.replace("_", "") + "network"
    found = None
    for name, each in module.__dict__.items():
        if name.lower() == wanted.lower() and issubclass(each, nn.Module):
            found = each
    if found is None:
        print("no class", wanted)
        exit(0)
    return found


def extender(kind):
    return find(kind).extend


def create(settings):
    network = find(settings.kind)
    made = network(settings)
    print(type(made).__name__)
    return made
""",
    "finding/networks/deep_wide_network.py": """import re

import torch
from torch import nn


class DeepWideNetwork(nn.Module):
    @staticmethod
    def extend(parser, training):
        parser.set_defaults(style="layers3x8")
        parser.add_argument("--outputs", type=int, default=5)
        return parser

    def __init__(self, settings):
        super().__init__()
        assert settings.style.startswith("layers")
        found = re.search(r"layers(\\d)x(\\d)", settings.style)
        depth, width = int(found.group(1)), int(found.group(2))
        sizes = [settings.total] + [width] * depth
        self.layers = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))
        self.head = nn.Linear(width, settings.outputs)

    def forward(self, x):
        return self.head(self.layers(x))
""",
    "finding/train.py": """from networks import create
from settings import Settings

settings = Settings().parse()
network = create(settings)
""",
    # a default that says that a configuration has to give the value, of a package that is not there
    "demanding.py": "import gin\n"
    + HEAD
    + """

class Wide(nn.Module):
    def __init__(self, width=gin.REQUIRED):
        super().__init__()
        self.layer = nn.Linear(8, width)

    def forward(self, x):
        return self.layer(x)


@gin.configurable
class Demanding(Wide):
    def __init__(self, heads=gin.REQUIRED, **kwargs):
        super().__init__(**kwargs)
        self.attention = nn.MultiheadAttention(8, heads, batch_first=True)

    def forward(self, x):
        return self.layer(self.attention(x, x, x)[0])
""",
    # a base that is not there, and what it has
    "head.py": HEAD
    + """from fxlens_no_such_package.heads import BaseHead


class Head(BaseHead):
    def forward(self, x):
        return self.layers(x)
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


JUDGED = {
    "keywords.py::Keywords": "assumed", "stages.py::Stages": "workspace", "spread.py::Spread": "workspace",
    "registered.py::Registered": "default", "registered.py::Entered": "default", "single.py::Single": "assumed",
    "readonly.py::ReadOnly": "instance", "halved.py::There": "default", "fit.py::Fit": "default",
    "demanding.py::Demanding": "assumed", "pretrained.py::Pretrained": "default", "noise.py::Noise": "assumed",
    "finding/networks/deep_wide_network.py::DeepWideNetwork": "workspace",
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_judged(checked: dict[str, Any], name: str):
    assert (checked[name]["status"], checked[name]["construct"]["source"]) == ("traced", JUDGED[name])
    assert not [each for each in checked[name.partition("::")[0]] if each["severity"] == "error"]


def test_where_gin_is_there_its_default_is_none_either(monkeypatch: pytest.MonkeyPatch):
    required = object()
    monkeypatch.setitem(sys.modules, "gin.config", SimpleNamespace(REQUIRED=required))

    class Net:
        def __init__(self, width=required, depth=2):
            pass

    assert construct.required_arguments(Net) == ["width"]
    assert annotated.fields(Net) == {"width": (NOTHING, NOTHING), "depth": (NOTHING, 2)}


def test_a_table_is_taken_as_it_is(checked: dict[str, Any]):
    assert "[24, 48, 96]" in checked["stages.py::Stages"]["construct"]["text"]
    assert checked["spread.py::Spread"]["construct"]["text"] == "Spread(10, width=20, depth=3, kind='wide')"


def test_a_class_that_is_found_by_its_name_gets_the_options_that_it_sets(checked: dict[str, Any]):
    text = checked["finding/networks/deep_wide_network.py::DeepWideNetwork"]["construct"]["text"]
    assert "style='layers3x8'" in text and "outputs=5" in text and "total=48" in text


def test_of_a_configuration_that_does_not_fit_only_that_is_assumed(checked: dict[str, Any]):
    text = checked["single.py::Single"]["construct"]["text"]
    assert "WIDTH=24" in text and "KIND='one'" in text and "CHANNELS=[3]" in text and "TASK=" in text


def test_a_class_whose_statement_raises_counts(checked: dict[str, Any]):
    lost = checked["halved.py::Lost"]
    assert (lost["status"], lost["reason"]) == ("skipped", "the statement that defines it raises")
    assert checked["coverage"]["notJudged"] == {"cannot be constructed": 1}


def test_mocks_of_a_documentation_harm_nobody(checked: dict[str, Any]):
    assert "docs/conf.py" not in checked or not checked["docs/conf.py"]


def test_what_a_missing_base_has_is_no_mistake(checked: dict[str, Any]):
    (found,) = [each for each in checked["head.py"] if each["target"] == "Head"]
    assert (found["code"], found["severity"]) == ("FX199", "info")
    assert "fxlens_no_such_package.heads.BaseHead, which may define it, cannot be imported" in found["message"]
