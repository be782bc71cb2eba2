"""Small repositories in the styles of real ones, which construct their classes: their files by path."""

from __future__ import annotations

IMPORTS = "import torch\nfrom torch import nn\n\n\n"
NET = (
    IMPORTS
    + """class {name}(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()
        self.linear = nn.Linear({width}, {width})

    def forward(self, x):
        return torch.relu(self.linear(x))
"""
)


def layered(name: str, *made: str, parameters: str = "") -> str:
    """A class that calls its ``layer``, which the last of the statements makes in its constructor."""
    head = f"class {name}(nn.Module):\n    def __init__(self{parameters}):\n        super().__init__()\n"
    return "\n\n" + head + "".join(f"        {each}\n" for each in made) + FORWARD


FORWARD = "\n    def forward(self, x):\n        return self.layer(x)\n"
HELD = (
    IMPORTS
    + """class {name}(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(spec.table["width"]))

    def forward(self, x, scale):
        return x * self.weight * scale
"""
)
MANY = [f"option_{number}" for number in range(70)]
"""More names than a search has trials."""
SAID = {
    "by_arch/config/small.yml": """model:
  arch:
    name: ByArch
    depth: 2
    backbone:
      kind: plain
      width: 28
""",
    "by_arch/net.py": NET.format(name="ByArch", parameters="backbone, depth", width="backbone.width"),
    "by_saved/net.py": NET.format(name="Saved", parameters="width, depth", width="width + depth"),
    "by_saved/convert.py": """from net import Saved


def converted(data):
    known, options = set(), data.options

    def option(name, default=None, missing=None):
        known.add(name)
        value = options.get(name, default)
        return value if value is not None else missing

    return Saved(**dict(width=option("width", 24), depth=option("depth", 2)))
""",
    "by_fields/config.py": """from dataclasses import dataclass, field


@dataclass
class Inferred:
    sizes: list = None
    outputs: int = 3


@dataclass
class ModelConfig:
    task: str = field(metadata={"choices": ["regression", "ranking"]})
    dropout: float = 0.25


@dataclass
class OtherConfig(ModelConfig):
    layers: str = "7-5"
    depth: int = 2


@dataclass
class ByFieldsConfig(ModelConfig):
    layers: str = "20-12"
    activation: str = "Hardswish"
""",
    "by_fields/net.py": """import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from torch import nn


def merged(config, inferred):
    inferred.sizes = config.get("sizes") or inferred.sizes
    return OmegaConf.merge(OmegaConf.to_container(config), OmegaConf.to_container(inferred))


class Sized(nn.Module):
    def __init__(self, sizes: tuple[int, int]):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(x, y) for x, y in sizes])

    def forward(self, x):
        return sum(each(x) for each in self.embeddings)


class Model(pl.LightningModule):
    def __init__(self, config: DictConfig, **kwargs):
        super().__init__()
        assert "inferred" in kwargs, "inferred is missing"
        config = merged(config, kwargs["inferred"])
        if config.task == "ranking":
            raise ValueError("ranking is not there yet")
        self.save_hyperparameters(config)
        self.build()


class ByFields(Model):
    def build(self):
        self.sized = Sized(self.hparams.sizes)
        layers, last = [], self.sized.embeddings[0].embedding_dim
        for each in self.hparams.layers.split("-"):
            layers += [nn.Linear(last, int(each)), getattr(nn, self.hparams.activation)()]
            last = int(each)
        self.layers = nn.Sequential(*layers, nn.Dropout(self.hparams.dropout), nn.Linear(last, self.hparams.outputs))

    def forward(self, ids):
        return self.layers(self.sized(ids))
""",
    "by_many/net.py": "from fxlens_no_such_parallel import get_tracker\n\n"
    + IMPORTS
    + """class Sharded(nn.Module):
    def __init__(self, args):
        super().__init__()
"""
    + "".join(f"        self.{name} = args.{name}\n" for name in MANY)
    + """        with get_tracker().fork():
            self.linear = nn.Linear(args.width, args.width)

    def forward(self, x):
        return self.linear(x)


TABLE = {"sharded": Sharded}


class ByTable(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layer = TABLE[args.kind](args)

    def forward(self, x):
        return self.layer(x)


def layers_for(args):
    from by_many.net import Sharded

    return Sharded, nn.Linear


class ByChoice(nn.Module):
    def __init__(self, args):
        super().__init__()
        First, Last = layers_for(args)
        self.first, self.last = First(args), Last(args.width, 4)

    def forward(self, x):
        return self.last(self.first(x))
""",
    "by_argparse/net.py": NET.format(name="ByArgparse", parameters="args", width="args.hidden"),
    "by_argparse/train.py": """import argparse

from net import ByArgparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=48)
    args = parser.parse_args()
    model = ByArgparse(args)
    raise SystemExit("no script is run to learn its arguments")


main()
""",
    "by_name/net.py": IMPORTS
    + """import re

SIZES = {"small": "w24_d2", "large": "w48_d3"}


def decoded(name):
    return [int(each) for each in re.findall(r"\\d+", SIZES[name])]


class ByName(nn.Module):
    def __init__(self, sizes=None):
        super().__init__()
        assert isinstance(sizes, list), "sizes should be a list"
        self.layers = nn.ModuleList(nn.Linear(sizes[0], sizes[0]) for _ in range(sizes[1]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @classmethod
    def from_name(cls, name, **options):
        return cls(decoded(name), **options)
""",
    "by_name/run.py": 'from net import ByName\n\nmodel = ByName.from_name("small")\n',
    "by_path/core/__init__.py": "",
    "by_path/core/net.py": "from parts import Scaled\n"
    + NET.format(name="ByPath", parameters="width=8", width="width"),
    "by_path/core/parts.py": "Scaled = 3\n",
    "by_path/run.py": 'import sys\n\nsys.path.append("core")\nfrom net import ByPath\n\nByPath(28)\n',
    "by_raising/net.py": IMPORTS
    + """URLS = {"w24d2": "", "w24d3": ""}


class ByRaising(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.url = URLS["w{}d{}".format(args.width, args.depth)]
        weight, kind = args.loss.split("*")
        self.scale, self.kind = float(weight), kind
        self.layers = nn.Sequential(*(nn.Linear(args.width, args.width) for _ in range(args.depth)))

    def forward(self, x):
        return self.layers(x) * self.scale
""",
    "by_raising/train.py": """import argparse

from net import ByRaising

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=24)
parser.add_argument("--depth", type=int, default=5)
parser.add_argument("--loss", default="1.5*L1")
model = ByRaising(parser.parse_args())
""",
    "by_function/configs/default.py": """import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.model = model = ml_collections.ConfigDict()
    model.width = 18
    model.kind = "plain"
    config.depth = 3
    return config
""",
    "by_function/net.py": IMPORTS
    + """import torch_geometric.nn.inits as inits


class ByFunction(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.model.kind not in ("plain", "wide"):
            raise ValueError(config.model.kind)
        self.layers = nn.Sequential(*(nn.Linear(config.model.width, config.model.width) for _ in range(config.depth)))
        inits.glorot(self.layers[0].weight)

    def forward(self, x):
        return self.layers(x)
""",
    "by_own_dict/net.py": IMPORTS
    + """class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class ByOwnDict(nn.Module):
    def __init__(self, h, kind=None):
        super().__init__()
        self.linear = nn.Linear(h.width, h.width)
        if kind == "late":
            self.scale = h.late
        else:
            raise NotImplementedError("kind")

    def forward(self, x):
        return self.linear(x)
""",
    "by_own_dict/train.py": "from net import AttrDict, ByOwnDict\n\nmodel = ByOwnDict(AttrDict({'width': 22}))\n",
    "by_groups/net.py": """try:
    import fxlens_no_such_kernels
    import fractions
except ImportError:
    pass
"""
    + IMPORTS
    + """_GROUP = None


def get_parallel_group():
    assert _GROUP is not None, "parallel group is not initialized"
    return _GROUP


def get_parallel_world_size():
    return torch.distributed.get_world_size(group=get_parallel_group())


class ByGroups(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.scale = torch.ones(width, device=torch.cuda.current_device())
        width = width // get_parallel_world_size() * fractions.Fraction(1).numerator
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x) * self.scale.to(x.device)
""",
    "by_prefix/net.py": IMPORTS
    + """def norm_for(kind):
    def normed(layer):
        nonlocal kind
        if kind.startswith("spectral"):
            rest = kind[len("spectral"):]
        return layer if rest == "" else nn.Sequential(layer, nn.Identity())

    return normed


class ByPrefix(nn.Module):
    def __init__(self, opt):
        super().__init__()
        norm = norm_for(opt.norm_E)
        self.layer = norm(nn.Linear(opt.width, opt.width))

    def forward(self, x):
        return self.layer(x)
""",
    "twice/table.py": """TABLE = {}


def register(cls):
    if cls.__name__ in TABLE:
        raise ValueError(f"{cls.__name__} already registered")
    TABLE[cls.__name__] = cls
    return cls
""",
    "twice/net.py": "from twice.table import register\n"
    + NET.format(name="Twice", parameters="width=8", width="width").replace("class Twice", "@register\nclass Twice")
    + "\n\nfrom math import fxlens_no_such_function\n",
    "by_yaml/net.py": NET.format(name="ByYaml", parameters="config", width='config["width"]'),
    "by_yaml/conf/model.yaml": "width: 40\n",
    "by_yaml/train.py": """import yaml

from net import ByYaml

with open("conf/model.yaml") as file:
    config = yaml.safe_load(file)
model = ByYaml(config)
""",
    "by_dataclass/net.py": "from dataclasses import dataclass\n\n"
    + NET.format(name="ByDataclass", parameters="config: Config", width="config.dim").replace(
        "class ByDataclass", "@dataclass\nclass Config:\n    dim: int = 24\n\n\nclass ByDataclass"
    ),
    "by_registry/net.py": "MODELS = {}\n\n\ndef register(cls):\n    MODELS[cls.__name__] = cls\n    return cls\n\n\n"
    + NET.format(name="ByRegistry", parameters="width", width="width").replace(
        "class ByRegistry", "@register\nclass ByRegistry"
    ),
    "by_registry/train.py": """from net import MODELS


def build_model(name="ByRegistry", width=20):
    return MODELS[name](width)


model = build_model()
""",
    "by_parent/part.py": NET.format(name="Part", parameters="width", width="width"),
    "by_parent/whole.py": """from torch import nn

from part import Part


class Whole(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.part = Part(width)

    def forward(self, x):
        return self.part(x)
""",
    "by_counting/net.py": IMPORTS
    + """class Deep(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(depth)))

    def forward(self, x):
        return self.layers(x)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 8)
        depth = 0
        while depth * depth < self.stem.weight.numel():
            depth += 4
        self.deep = Deep(depth)

    def forward(self, x):
        return self.deep(self.stem(x))
""",
    "by_model/part.py": HELD.format(name="Elsewhere"),
    "by_model/whole.py": "from .part import Elsewhere\n" + HELD.format(name="Here") + """

def read(lines):
    class Spec:
        table = {name: int(value) for name, value in (line.split("=") for line in lines)}

    return Spec()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        spec = read(["width=12"])
        self.stem = nn.Linear(6, 12)
        self.here = nn.ModuleList([Here(spec), Here(spec)])
        self.elsewhere = Elsewhere(spec)

    def forward(self, x):
        x = self.stem(x)
        for part in self.here:
            x = part(x, torch.ones_like(x[:, :1]))
        return self.elsewhere(x, scale=x)
""",
    "by_model/tools.py": "import a_package_that_nobody_has\n\n\ndef tool():\n    a_package_that_nobody_has.tool()\n",
    "fxlens.examples.toml": '[["recorded/net.py::Recorded"]]\nconstruct = "Recorded(36)"\n'
    'eval = ["torch.randn(5, 36)"]\n',
}  # fmt: skip
