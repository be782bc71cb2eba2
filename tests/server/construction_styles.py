"""Small repositories in the styles of real ones: their files by path."""

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
FILES = {
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
    "compiled/net.py": "from torch.utils.cpp_extension import load\n\nkernel = load(name='kernel', sources=['k.cu'])\n"
    + NET.format(name="Compiled", parameters="width", width="width"),
    "optional/net.py": "try:\n    import kernels_that_nobody_has as kernels\nexcept ImportError:\n    pass\n\n"
    + NET.format(name="Optional", parameters="width", width="width").replace("torch.relu(", "kernels.relu("),
    "shadowed/net.py": IMPORTS
    + """def rate(x):
    return x * 0.5


class Scaled(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return x * (1 - self.rate)


class Halved(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.scaled = Scaled(rate)

    def forward(self, x):
        return self.scaled(x)
""",
    "settings/net.py": "from options import Options\n"
    + NET.format(name="WithOptions", parameters="width=8", width="width"),
    "settings/options.py": "from dataclasses import dataclass\n\n\n@dataclass\nclass Options:\n    sizes: list = []\n",
    "missing/abstract.py": "from abc import ABC, abstractmethod\n\nfrom a_package_that_nobody_has import Metric\n\n"
    + NET.format(name="Measured", parameters="width=8", width="width")
    + "\n\nclass Rate(Metric, ABC):\n    @abstractmethod\n    def rate(self):\n        raise NotImplementedError\n",
    "missing/net.py": "import a_package_that_nobody_has as gone\n"
    + "from a_package_that_nobody_has.layers import ColumnLinear, Layer, layer\n"
    + "from lightning import LightningModule\n\n"
    + NET.format(name="Plain", parameters="width", width="width")
    + """

class Uses(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = Layer(width)

    def forward(self, x):
        return self.layer(x)


class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(layer(width) + 1, width)

    def forward(self, x):
        return self.layer(x)


class Columns(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = ColumnLinear(width // gone.get_model_parallel_world_size(), 8, bias=False, gather=False)

    def forward(self, x):
        return self.layer(x)


class Lit(LightningModule):
    def __init__(self, width=8):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(self.hparams.width, 2)
        self.accuracy = gone.Accuracy(task="multiclass")

    def forward(self, x):
        return self.layer(x)
""",
    "script/train.py": NET.format(name="Before", parameters="width", width="width")
    + """

weights = torch.zeros(3).cuda()


class After(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width).to("cuda")
        self.rank = torch.distributed.get_rank()

    def forward(self, x):
        return self.layer(x)
""",
    "guarded/net.py": "try:\n    import a_package_that_nobody_has\n"
    + "except ImportError:\n    a_package_that_nobody_has = None\n\n"
    + NET.format(name="Guarded", parameters="width", width="8 if a_package_that_nobody_has is None else width"),
    "package/__init__.py": "from .version import __version__\n\nraise RuntimeError('made by setup.py')\n",
    "package/net.py": NET.format(name="Inside", parameters="width", width="width"),
    "assumed/net.py": NET.format(name="Assumed", parameters="in_features, num_heads", width="in_features").replace(
        "super().__init__()", "super().__init__()\n        assert in_features % num_heads == 0, 'not divisible'"
    ),
    "assumed/around.py": "import numpy\n"
    + IMPORTS
    + """class Backbone(nn.Module):
    def __init__(self, width, noisy=False, fourier=False):
        super().__init__()
        assert width % 8 == 0
        self.width = width
        self.is_noisy = noisy or fourier
        self.stem = nn.Linear(width, width)

    def forward(self, x):
        return self.stem(x)


class Around(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        assert backbone.is_noisy and backbone.width
        self.backbone = backbone

    def forward(self, x):
        return self.backbone(x)


class Filled(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        if kind == "affine":
            self.affine = nn.Linear(width, width)
            self.affine.bias.data = torch.from_numpy(numpy.zeros(width)).float()
        elif kind != "none":
            raise ValueError(kind)
        self.kind = kind

    def forward(self, x):
        return self.affine(x) if self.kind == "affine" else x


class Asking(nn.Module):
    def __init__(self, width, block=None, depth=None):
        super().__init__()
        if block is None:
            self.layers = self.stack(width, depth)
        else:
            self.layers = block

    def stack(self, width, count):
        if not count:
            raise ValueError("`depth` must be passed in")
        return nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))

    def forward(self, x):
        return self.layers(x)


class Layers(nn.Module):
    def __init__(self, attn_layers):
        super().__init__()
        self.attn_layers = nn.ModuleList(attn_layers)

    def forward(self, x):
        for layer in self.attn_layers:
            x = layer(x)
        return x


class Stages(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return sum(layer.attn_layers[0](x) for layer in self.layers)
""",
    "assumed/base.py": IMPORTS
    + "class Base(nn.Module):\n    def forward(self, x):\n        raise NotImplementedError\n\n\n"
    + "class Template(nn.Module):\n    def forward(self, x):\n        return self.step(x) * 2\n\n"
    + "    def step(self, x):\n        raise NotImplementedError\n\n\n"
    + "class Block(nn.Module):\n    def forward(self, x):\n        return self.layer(x) + x\n\n\n"
    + "class Wide(Block):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.layer = nn.Linear(8, 8)\n\n\n"
    + "class Stage(nn.Module):\n    def forward(self, x):\n        return self._run(x)\n\n"
    + "    def _run(self, x):\n        return self.stem(x)\n\n\n"
    + "class First(Stage):\n    def __init__(self):\n        super().__init__()\n        self.stem = nn.Linear(8, 8)\n",
    "assumed/faulty.py": NET.format(name="Faulty", parameters="width", width="width").replace(
        "        return", "        if x.sum() > 0:\n            x = x + 1\n        return"
    ),
    "recorded/net.py": NET.format(name="Recorded", parameters="width", width="width"),
    "arguments/train.py": (
        "import argparse\nimport sys\nimport urllib.request\n\nimport torch\nfrom torch import nn\n\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--dataset', required=True, choices=['digits', 'faces'])\n"
        "parser.add_argument('folder')\nparser.add_argument('--width', type=int, default=12)\n"
        "options = parser.parse_args()\n"
        "try:\n    urllib.request.urlopen('http://data.invalid/digits')\nexcept OSError:\n"
        "    raise RuntimeError('Error downloading digits:') from None\n"
        "if options.dataset == 'faces':\n    channels = 3\n"
        "width = int(options.width)\n\n\nclass Asked(nn.Module):\n    def __init__(self, count):\n"
        "        super().__init__()\n        self.layer = nn.Conv2d(channels, width * count, 1)\n\n"
        "    def forward(self, x):\n        return self.layer(x)\n"
    ),
    "arguments/needs.py": (
        "import argparse\n\nfrom torch import nn\n\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--data', required=True)\noptions = parser.parse_args()\n"
        "if not options.data:\n    raise ValueError('data is empty')\n\n\n"
        "class Given(nn.Module):\n    def forward(self, x):\n        return x + 2\n"
    ),
    "arguments/cuda.py": (
        "import sys\n\nfrom torch import nn\n\nif not hasattr(nn, 'accelerator'):\n    sys.exit('needs a device')\n\n\n"
        "class Ended(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    ),
    "policy/agent.py": IMPORTS
    + "class Policy(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.mean = nn.Linear(6, 2)\n\n    def forward(self, observation):\n"
    "        policy = torch.distributions.Normal(self.mean(observation), 1.0)\n        return policy.sample()\n",
    "helpers/net.py": "from mmcv.cnn import ConvModule, DropPath, build_norm_layer, trunc_normal_\n"
    "from mmcv.utils import Registry, to_2tuple\n"
    + IMPORTS
    + """LAYERS = Registry('layers')


@LAYERS.register_module()
class Patches(nn.Module):
    def __init__(self, width=24, size=4):
        super().__init__()
        self.conv = ConvModule(3, width, to_2tuple(size), stride=size, norm_cfg=dict(type='BN'))
        self.norm = build_norm_layer(dict(type='LN', eps=1e-6), width)[1]
        trunc_normal_(self.conv.conv.weight, std=0.02)

    def forward(self, x):
        return self.norm(self.conv(x).flatten(2).transpose(1, 2))


class Drops(nn.Module):
    def __init__(self, layer=dict(type='Patches', width=12)):
        super().__init__()
        self.patches = LAYERS.build(layer)
        self.drop = DropPath(0.1)

    def forward(self, x):
        return self.drop(self.patches(x))


class ByHeads(nn.Module):
    def __init__(self, width, heads=6):
        super().__init__()
        if width % heads != 0:
            raise ValueError(f"width must be divisible by heads, but got {width} and {heads}")
        self.heads, self.linear = heads, nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x).unflatten(-1, (self.heads, -1))
""",
    "spaces/policies.py": "from collections.abc import Callable\n\nimport gymnasium as gym\n"
    "from gymnasium import spaces\n"
    + IMPORTS
    + """class Extractor(nn.Module):
    def __init__(self, space: gym.Space, width=0):
        super().__init__()
        self._observation_space = space
        self.width = width


class Flat(Extractor):
    def __init__(self, space: gym.Space):
        super().__init__(space, spaces.utils.flatdim(space))

    def forward(self, observations: torch.Tensor):
        return observations.flatten(1)


class Frames(Extractor):
    def __init__(self, space: gym.Space):
        assert isinstance(space, spaces.Box) and len(space.shape) == 3 and space.high.max() == 255, "an image"
        super().__init__(space)
        self.layers = nn.Sequential(nn.Conv2d(space.shape[0], 8, 8, 4), nn.Flatten())
        with torch.no_grad():
            count = self.layers(torch.as_tensor(space.sample()[None]).float()).shape[1]
        self.linear = nn.Linear(count, 16)

    def forward(self, observations):
        return self.linear(self.layers(observations))


class Combined(Extractor):
    def __init__(self, space: spaces.Dict):
        super().__init__(space)
        self.parts = nn.ModuleDict({key: Flat(each) for key, each in space.spaces.items()})

    def forward(self, observations):
        return torch.cat([part(observations[key]) for key, part in self.parts.items()], dim=1)


class Actor(nn.Module):
    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Discrete,
        extractor: Extractor,
        width: int,
        schedule: Callable[[float], float],
    ):
        super().__init__()
        self.extractor = extractor
        self.rate = schedule(1.0) * 2
        self.observation_space = observation_space
        self.head = nn.Linear(width, int(action_space.n))

    def forward(self, obs):
        return self.head(self.extractor(obs))
""",
    "unlike/heads.py": IMPORTS
    + "class Heads(nn.Module):\n    def __init__(self, names):\n        super().__init__()\n"
    "        self.heads = nn.ModuleDict({name: nn.Conv2d(3, 8, 1) for name in names})\n\n"
    "    def forward(self, x):\n        return self.heads['depth'](x) + self.heads['normal'](x)\n",
    "inside/net.py": IMPORTS
    + "class Outer(nn.Module):\n    class Meta:\n        name = 'outer'\n\n"
    "    class Held(nn.Module):\n        def __init__(self, width):\n            super().__init__()\n"
    "            self.linear = nn.Linear(width, width)\n\n        def forward(self, x):\n"
    "            return self.linear(x) if x.sum() > 0 else x\n\n"
    "    class Alone(nn.Module):\n        def __init__(self, width):\n            super().__init__()\n"
    "            self.linear = nn.Linear(width, width)\n\n        def forward(self, x):\n"
    "            return self.linear(x)\n\n"
    "    def __init__(self):\n        super().__init__()\n        self.held = self.Held(14)\n\n"
    "    def forward(self, x):\n        return self.held(x)\n",
    "fxlens.examples.toml": '[["recorded/net.py::Recorded"]]\nconstruct = "Recorded(36)"\n'
    'eval = ["torch.randn(5, 36)"]\n',
}  # fmt: skip
