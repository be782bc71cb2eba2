"""Features of further third-party repositories: tables with values that are computed from data, layers that are
scripted in a constructor, models around models, packages whose folder is empty or that lack a name, models that are
fetched, and configurations in Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fxlens.worker import user_file
from fxlens.worker.assume import sandbox
from strangers import HEAD, judged

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
    # names that an installed package does not have any more, and all names of a module that is not there
    "gone.py": "from fxlens_no_such_helpers import *\n"
    + HEAD
    + """from torchvision import FxlensGoneMixin, fxlens_gone_part


class Marked(FxlensGoneMixin):
    kind = "marked"


class Gone(nn.Module):
    def __init__(self):
        super().__init__()
        self.marked, self.part = Marked(), fxlens_gone_part("small")
        self.layer = nn.Linear(int(np.prod((2, 4))), 4)

    def forward(self, x):
        return F.relu(self.layer(x))
""",
    # what packages that are missing check, compare, initialize and compute
    "helped.py": HEAD
    + """import pkg_resources as pkg
from fxlens_no_such_helpers import default_init_weights
from scipy.special import eval_legendre
from typeguard import check_argument_types

NEW = pkg.parse_version(torch.__version__) >= pkg.parse_version("1.10.0")


class Helped(nn.Module):
    def __init__(self):
        assert check_argument_types()
        super().__init__()
        import compared

        self.layer = nn.Linear(8 if compared.NEW else 7, 4)
        default_init_weights(self.layer, scale=0.1)
        self.register_buffer("roots", torch.tensor([float(eval_legendre(n, 0.5)) for n in range(3)]))

    def forward(self, x):
        return self.layer(x)
""",
    "compared.py": """import pkg_resources as pkg
import torch

NEW = pkg.parse_version(torch.__version__) >= pkg.parse_version("1.10.0")
""",
    # a model that is fetched, and weights that a method fetches
    "fetched.py": HEAD
    + """import urllib.request


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        fetched = torch.hub.load("fxlens/no-such-repository", "small")
        self.stem = nn.Sequential(fetched.conv1, fetched.bn1)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.stem(self.head(x))


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.load_from_pretrained()

    def load_from_pretrained(self, name="small"):
        with urllib.request.urlopen(f"https://fxlens.invalid/{name}") as file:
            self.load_state_dict(torch.load(file))

    def forward(self, x):
        return self.layer(x)
""",
    # models and tokenizers of the Hugging Face Hub
    "hub.py": HEAD
    + """from transformers import AutoModel, AutoTokenizer, BertModel, GPT2Config, PreTrainedModel
from transformers.modeling_utils import Conv1D, apply_chunking_to_forward


class Moved(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Conv1D(4, 8)

    def forward(self, x):
        return apply_chunking_to_forward(self.feed, 0, 1, x)

    def feed(self, x):
        return self.layer(x)


class Encoded(nn.Module):
    def __init__(self, name="bert-base-uncased"):
        super().__init__()
        tokenizer = AutoTokenizer.from_pretrained(name)
        self.special = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self.text = BertModel.from_pretrained(name) if "large" in name else AutoModel.from_pretrained(name)
        self.layer = nn.Linear(self.text.config.hidden_size, 4)

    def forward(self, x):
        return self.layer(x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = BertModel.from_pretrained("an-unknown-name")
        self.layer = nn.Linear(self.text.config.hidden_size, 4)

    def forward(self, x):
        return self.layer(x)


class Earlier(PreTrainedModel):
    config_class = GPT2Config

    def __init__(self, config):
        super().__init__(config)
        self.layer = nn.Linear(config.n_ctx, 4, bias=config.gradient_checkpointing)
        self.init_weights()

    def forward(self, x):
        return self.layer(x)


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = AutoModel.from_pretrained("an-unknown-name")

    def forward(self, x):
        return self.text(x)
""",
    # two modules that import each other, of which one has to come first
    "circle/layers.py": HEAD
    + """from circle import attention


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)


class Coupled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = attention.Attended(width)

    def forward(self, x):
        return self.layer(x)
""",
    "circle/attention.py": HEAD
    + """from circle.layers import Scaled


class Attended(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = Scaled(width)

    def forward(self, x):
        return self.layer(x)
""",
    # a chain with a layer of a package that is missing, and an option that is needed
    "grades.py": HEAD
    + """from fxlens_no_such_helpers import FusedActivation


class Chained(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Linear(width, width), FusedActivation(width))


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.condition = nn.Conv1d(4, 4, 1), nn.Conv1d(8, 4, 1)

    def forward(self, x, g=None):
        return self.layer(x) + self.condition(g)
""",
    # a kernel for another device
    "devices.py": HEAD
    + """

class Fused(nn.Module):
    def forward(self, x):
        if not x.is_cuda:
            raise NotImplementedError
        return x * 2


if __name__ == "__main__":
    Fused()(torch.randn(1, 4))
""",
    # a path of a class that a configuration gives
    "named.py": HEAD
    + """import importlib


def made_from(config):
    module, name = config["target"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config.get("params", dict()))


class Named(nn.Module):
    def __init__(self, scheduler_config):
        super().__init__()
        self.scheduler = made_from(scheduler_config)
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES, lambda folder: (folder / "fxlens_empty_engine").mkdir())


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


@pytest.mark.parametrize(
    "name",
    [
        "gone.py::Gone",
        "helped.py::Helped",
        "fetched.py::Weighted",
        "named.py::Named",
        "hub.py::Earlier",
        "hub.py::Encoded",
        "hub.py::Moved",
        "hub.py::Whole",
    ],
)
def test_what_is_missing_is_replaced(checked: dict[str, Any], name: str):
    assert checked[name]["status"] == "traced", checked[name]["reason"]


def test_a_model_that_is_fetched_may_be_a_part(checked: dict[str, Any]):
    said = checked["fetched.py::Around"]
    assert said["status"] == "partial" and "nothing is fetched" in said["reason"]


def test_a_name_that_does_not_say_what_it_means_is_fetched_in_vain(checked: dict[str, Any]):
    said = checked["hub.py::Unknown"]
    assert said["status"] == "skipped" and "OSError" in said["reason"]


@pytest.mark.parametrize("name", ["layers.py::Scaled", "layers.py::Coupled", "attention.py::Attended"])
def test_modules_that_import_each_other_are_imported_in_the_order_that_works(checked: dict[str, Any], name: str):
    assert checked[f"circle/{name}"]["status"] == "traced", checked[f"circle/{name}"]["reason"]
    assert not checked[f"circle/{name.partition('::')[0]}"]


def test_a_missing_package_and_inputs_of_our_own_are_no_faults_of_the_code(checked: dict[str, Any]):
    found = {(each["target"], each["code"]): each["severity"] for each in checked["grades.py"] if each["target"]}
    assert found and set(found.values()) <= {"info", "hint"}, found


def test_tensors_on_no_other_device_are_no_fault_of_the_code(checked: dict[str, Any]):
    assert checked["devices.py::Fused"]["inputs"]["source"] == "call"
    found = {each["code"]: each["severity"] for each in checked["devices.py"]}
    assert found == {"FX102": "error", "FX199": "info"}


def test_a_default_configuration_is_told(checked: dict[str, Any]):
    said = {each["target"]: each for each in checked["hub.py"] if each["code"] == "FX313"}
    assert set(said) == {"Encoded", "Whole"}
    bert = said["Encoded"]
    assert bert["severity"] == "info" and "`bert-base-uncased` is not on this machine" in bert["message"]
    assert "default configuration of bert" in bert["message"]
    line = FILES["hub.py"].splitlines()[bert["range"]["start"]["line"]]
    assert line.lstrip().startswith("self.text = BertModel")


def test_a_trial_takes_no_more_memory_than_it_may():
    with pytest.raises(RuntimeError, match="allocate memory"), sandbox.trial(10.0):
        torch.empty(2 * sandbox.MEMORY, dtype=torch.uint8)
    assert torch.empty(1 << 20).numel() == 1 << 20
