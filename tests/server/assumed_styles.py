"""Small repositories that do not construct their classes, or lack what their files import: the files by path."""

from __future__ import annotations

from construction_styles import IMPORTS, NET

UNSAID = {
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
    + "from a_package_that_nobody_has.layers import ColumnParallelLinear, Layer, layer\n"
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
        size = gone.get_model_parallel_world_size()
        self.layer = ColumnParallelLinear(width // size, 8, bias=False, gather_output=False)

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
}  # fmt: skip
