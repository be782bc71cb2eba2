"""Features of third-party repositories that were seen last: objects whose methods compute, and options of groups of
configurations, defaults that a missing package holds, functions that ask for a group of processes, optimizers, and
keywords that are passed on."""

from __future__ import annotations

from typing import Any

import pytest
from strangers import HEAD, judged

FILES = {
    # an object with methods, of which nothing is known: those are functions, no layers that are not registered
    "curved.py": HEAD
    + """

class Curved(nn.Module):
    def __init__(self, manifold, width, curvature):
        super().__init__()
        self.manifold, self.curvature = manifold, curvature
        self.weight = nn.Parameter(torch.ones(width, width))

    def forward(self, x):
        x = self.manifold.project(x @ self.weight, c=self.curvature)
        return self.manifold.to_tangent(x, c=self.curvature) * 2
""",
    # query, key and value, of which the code tells the rank of the key only
    "attending.py": HEAD
    + """

class Attending(nn.Module):
    def forward(self, q, k, v, mask=None):
        weights = torch.matmul(q, k.transpose(2, 3))
        if mask is not None:
            weights = weights.masked_fill(mask == 0, -1e9)
        return torch.matmul(weights.softmax(-1), v)
""",
    # a model that an option of hydra's group describes, with options of its own and values of other groups
    "composed.py": HEAD
    + """

class Composed(nn.Module):
    def __init__(self, classes, encoder):
        super().__init__()
        layers = {"swish": nn.SiLU, "plain": nn.ReLU}
        self.encoder = nn.Sequential(nn.Linear(encoder.width, encoder.width), layers[encoder.inner.kind]())
        self.head = nn.Linear(encoder.width, classes)

    def forward(self, x):
        return self.head(self.encoder(x))
""",
    # defaults in an object of a package that is not there, which a file builds while it is imported
    "settings.py": "from yacs.config import CfgNode as CN\n\n_C = CN()\ncfg = _C\n_C.MODEL = CN()\n"
    "_C.MODEL.WIDTHS = (8, 16)\n_C.MODEL.HEAD = CN({'CLASSES': 5, 'KWARGS': {'bias': False}})\n"
    "_C.MODEL.HEAD.BIAS = cfg.MODEL.HEAD.KWARGS.bias\n",
    "configured.py": HEAD
    + """from settings import cfg


class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        first, second = cfg.MODEL.WIDTHS
        self.body = nn.Linear(first, second)
        self.head = nn.Linear(second, cfg.MODEL.HEAD.CLASSES, **cfg.MODEL.HEAD.KWARGS)

    def forward(self, x):
        return self.head(self.body(x))
""",
    # a group of processes that nobody has begun
    "grouped.py": HEAD
    + """
begun = False


def get_world_size():
    if not begun:
        raise Exception("dist not inited")
    return 2


class Grouped(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.share = get_world_size()
        self.layer = nn.Linear(width, width // self.share)

    def forward(self, x):
        return self.layer(x) / self.share
""",
    # functions that make optimizers of a list of parameters
    "trained.py": HEAD
    + """

class Trained(nn.Module):
    def __init__(self, state_dim, actor_opt_fn, optimizer_fn):
        super().__init__()
        self.actor = nn.Linear(state_dim, 4)
        self.actor_opt = actor_opt_fn(list(self.actor.parameters()))
        self.opt = optimizer_fn(list(self.actor.parameters()))

    def forward(self, x):
        return self.actor(x)
""",
    # keywords that are passed on, which a script gives beside what its data say
    "passed_on.py": HEAD
    + """

class Options:
    def __init__(self, width=12, kind="plain"):
        self.width, self.kind = width, kind


class PassedOn(nn.Module):
    def __init__(self, state_dim, **kwargs):
        super().__init__()
        options = Options(**kwargs)
        if options.kind == "plain":
            raise ValueError("a kind is needed")
        self.layer = nn.Linear(state_dim, options.width)

    def forward(self, x):
        return self.layer(x)
""",
    "run.py": "import sys\n\nimport numpy as np\nfrom passed_on import PassedOn\n\ndata = np.load(sys.argv[1])\n"
    "PassedOn(state_dim=data.shape[1], width=20, kind='gated')\n",
    # arguments that need two numbers each, which are None by default
    "paired.py": HEAD
    + """

class Fiber:
    def __init__(self, num_degrees=None, num_channels=None, structure=None, dictionary=None):
        if structure:
            self.structure = structure
        elif dictionary:
            self.structure = [(dictionary[each], each) for each in sorted(dictionary.keys())]
        else:
            self.structure = [(num_channels, each) for each in range(num_degrees)]
        counts, self.degrees = zip(*self.structure)
        self.features = sum([each[0] * (2 * each[1] + 1) for each in self.structure])

    def joined(self, other):
        return Fiber(structure=[*self.structure, *other.structure])


class Paired(nn.Module):
    def __init__(self, f_in: Fiber, f_out: Fiber):
        super().__init__()
        assert isinstance(f_in, Fiber) and isinstance(f_out, Fiber)
        self.layer = nn.Linear(f_in.features, f_in.joined(f_out).features)

    def forward(self, x):
        return self.layer(x)
""",
    "configs/eval.yaml": "defaults:\n  - model: other\n",
    "configs/train.yaml": "defaults:\n  - _self_\n  - data: small\n  - model: other\n",
    "configs/data/small.yaml": "classes: 7\nseed: ${seed}\n",
    "configs/model/composed.yaml": "defaults:\n  - _self_\n  - encoder: default.yaml\n\n_target_: composed.Composed\n"
    "classes: ${data.classes}\nwidth: 24\n",
    "configs/model/encoder/default.yaml": "width: ${model.width}\ninner:\n  kind: swish\n",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


def test_methods_of_an_unknown_object_are_no_layers(checked: dict[str, Any]):
    assert checked["curved.py::Curved"]["status"] == "traced", checked["curved.py"]
    assert "PassThrough()" in checked["curved.py::Curved"]["construct"]["text"]


def test_an_option_of_a_group_has_its_own_options_and_values_of_others(checked: dict[str, Any]):
    found = checked["composed.py::Composed"]
    assert found["status"] == "traced" and found["construct"]["source"] == "workspace", found
    assert found["construct"]["text"] == (
        "Composed(classes=7, encoder=AttrDict({'width': 24, 'inner': AttrDict({'kind': 'swish'})}))"
    )


@pytest.mark.parametrize(
    "name", ["configured.py::Configured", "grouped.py::Grouped", "paired.py::Paired", "trained.py::Trained"]
)
def test_judged(checked: dict[str, Any], name: str):
    assert checked[name]["status"] == "traced", checked[name]


def test_who_asks_for_a_group_of_processes_is_alone(checked: dict[str, Any]):
    assert checked["grouped.py"] == [] and checked["grouped.py::Grouped"]["construct"]["source"] == "default"


def test_what_makes_optimizers_is_one(checked: dict[str, Any]):
    assert checked["trained.py::Trained"]["construct"]["text"].count("torch.optim.Adam") == 2


def test_keywords_that_are_passed_on_are_as_a_script_gives_them(checked: dict[str, Any]):
    found = checked["passed_on.py::PassedOn"]
    assert found["status"] == "traced", found
    assert found["construct"]["text"].endswith("width=20, kind='gated')")


def test_query_key_and_value_have_one_rank(checked: dict[str, Any]):
    given = checked["attending.py::Attending"]["inputs"]["text"].removesuffix(")").split("), ")
    assert len(given) == 3 and len(set(given)) == 1 and given[0].count(",") == 3, given
