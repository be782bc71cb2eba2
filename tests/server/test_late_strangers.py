"""Features of further third-party repositories: tables with values that are computed from data, layers that are
scripted in a constructor, models around models, packages whose folder is empty or that lack a name, models that are
fetched, and configurations in Python."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
import torch
from fxlens.worker import user_file
from fxlens.worker.assume import sandbox
from warm_python import warm_fxlens

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
    + """from transformers import AutoModel, AutoTokenizer, BertModel


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


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = AutoModel.from_pretrained("an-unknown-name")

    def forward(self, x):
        return self.text(x)
""",
    # a script that begins with a program, and lists of which an argument is one
    "begins.py": """import asyncio
import contextlib
import os
import pty
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "site-packages"))
import fxlens_beginning


def said_by(*command):
    return subprocess.check_output(command, text=True).strip()


os.system("touch begun.txt")
with subprocess.Popen(["touch", "begun.txt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as touching:
    SAID = touching.communicate(b"much")
subprocess.run("touch begun.txt", shell=True, check=True)
with os.popen("touch begun.txt") as output:
    READ = output.read()
try:
    REVISION = said_by("git", "rev-parse", "HEAD")
except (OSError, subprocess.CalledProcessError):
    REVISION = "none"
with contextlib.suppress(FileNotFoundError):
    asyncio.run(asyncio.create_subprocess_exec("touch", "begun.txt"))
with contextlib.suppress(FileNotFoundError):
    pty.spawn(["touch", "begun.txt"])
VERSION = said_by("nvcc", "--version")
ENDED = touching.returncode == touching.poll() == touching.wait() == 0
assert (ENDED, SAID, READ, REVISION, VERSION) == (True, (b"", None), "", "none", ""), (SAID, READ, REVISION, VERSION)
fxlens_beginning.begin()
"""
    + HEAD
    + """

class Begins(nn.Module):
    def __init__(self, return_stages):
        super().__init__()
        assert return_stages in [[0, 1, 2], [1, 2], [2]]
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in return_stages])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    # a package starts what it needs
    "site-packages/fxlens_beginning.py": """import subprocess


def begin():
    subprocess.check_call(["touch", "begun_by_package.txt"])
""",
    # what is read of a program that is not started
    "version.py": "import subprocess\n\nMAJOR, MINOR = subprocess.check_output(['git', 'describe']).split(b'.')\n",
    "versioned.py": HEAD
    + """from version import MAJOR


class Versioned(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)
""",
    # keywords that the model of another module reads, and that a class of it requires
    "engines/__init__.py": "",
    "engines/deep.py": HEAD
    + """

class Scored(nn.Module):
    def __init__(self, scheme):
        super().__init__()
        if scheme == "rows":
            self.axis = 0
        elif scheme == "columns":
            self.axis = 1
        else:
            raise ValueError("an unknown scheme")

    def forward(self, x):
        return x.sum(self.axis)


class Deep(nn.Module):
    def __init__(self, width, **kwargs):
        super().__init__()
        self.pooled_by = kwargs["pooled_by"]
        if self.pooled_by == "most":
            width = 2 * width
        elif self.pooled_by != "few":
            raise ValueError("nothing to pool by")
        self.layer, self.score = nn.Linear(width, width), Scored(kwargs["scheme"])

    def forward(self, x):
        return self.score(self.layer(x))


def Engine(**kwargs):
    return Deep(8, **kwargs)


def Score(pooled_by=None, **kwargs):
    return Scored(**kwargs)
""",
    "chosen.py": HEAD
    + """import importlib


class Chosen(nn.Module):
    def __init__(self, engine, **kwargs):
        super().__init__()
        self.score = importlib.import_module("engines." + engine).__getattribute__("Score")(**kwargs)
        self.engine = importlib.import_module("engines." + engine).__getattribute__("Engine")(**kwargs)

    def forward(self, x):
        return self.engine(x)
""",
    # a part that only a property reads, a layer by its name, methods of subclasses
    "decoders.py": HEAD
    + """

class Table(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x[..., : self.width]


class Odd(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x, x


class DecoderBase(nn.Module):
    '''Reads with a layer.

    Args:
        two_way_encoder (bool): whether the encoder reads both ways
    '''

    def __init__(self, rnn_type, two_way_encoder, table=None):
        super().__init__()
        self.table, self.factor = table, 2 if two_way_encoder else 1
        self.rnn = self.made(rnn_type, self.input_size)

    def forward(self, x):
        return self.read(x)


class Decoder(DecoderBase):
    def made(self, kind, width):
        return Odd() if kind == "Odd" else getattr(nn, kind)(width, 16, batch_first=True)

    @property
    def input_size(self):
        return self.table.width * self.factor

    def read(self, x):
        return self.rnn(x)[0]
""",
    # lists that a docstring, or a default elsewhere, says
    "filters.py": HEAD
    + """import cv2


def outer(taps):
    taps = torch.tensor(taps, dtype=torch.float32)
    return taps[None, :] * taps[:, None] if taps.ndim == 1 else taps


def sharpened(x, profile=(1, 3, 3, 1)):
    return x * outer(profile).mean()


class Smoothed(nn.Module):
    '''Smooths rows.

    Args:
        taps (list[int]): the weights of a row
    '''

    def __init__(self, taps):
        super().__init__()
        self.kernel = outer(taps)
        self.pad = self.kernel.shape[0] - 1

    def forward(self, x):
        return torch.nn.functional.pad(x, (self.pad, 0))


class Halved(nn.Module):
    def __init__(self, profile):
        super().__init__()
        self.kernel = outer(profile)
        self.pad = self.kernel.shape[0] - 2

    def forward(self, x):
        return torch.nn.functional.pad(x, (self.pad, 0))


class Blurred(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        kernel = cv2.getGaussianKernel(width, 0)
        self.register_buffer("kernel", torch.from_numpy(kernel @ kernel.T).float())

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.kernel[None, None])
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
    # functions without a name, in which arguments fail
    "unnamed.py": HEAD
    + """

class Unnamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.prepare = lambda rows: torch.stack(
            [row.reshape(3, 5) for row in rows])
        self.layer = nn.Linear(5, 4)

    def forward(self, x):
        return self.layer(self.prepare(x))
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
    # configurations in Python, in several sizes, one over another one; read by a class of the workspace
    "configs/detector_big.py": """detector = dict(
    backbone_width=64, backbone_repeats=[4, 8, 4], head=dict(anchor_count=3, kind="plain"))
learning_rate = 0.001
epochs = 2
""",
    "configs/detector_small.py": """_base_ = ["./detector_big.py"]
detector = dict(backbone_width=24, backbone_repeats=[1, 2], head=dict(anchor_count=2))
learning_rate = 0.1
epochs = 300
""",
    "detector.py": HEAD
    + """

class Detector(nn.Module):
    def __init__(self, config, classes=None):
        super().__init__()
        wide = config.detector.backbone_width
        assert config.detector.head.kind == "plain"
        self.blocks = nn.ModuleList([nn.Linear(wide, wide) for _ in range(sum(config.detector.backbone_repeats))])
        self.head = nn.Linear(wide, config.detector.head.anchor_count * classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
""",
    "configs/reader.py": """stem_width = 12
stem_depth = 3
dataset = "none"
""",
    "reader.py": HEAD
    + """

class Settings:
    def __init__(self, names):
        self.names = names

    def __getattr__(self, name):
        return self.names[name]

    @staticmethod
    def fromfile(filename):
        names = {}
        exec(open(filename).read(), names)
        return Settings(names)


class Read(nn.Module):
    def __init__(self, one, two):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(one, one) for _ in range(two)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def main(path):
    settings = Settings.fromfile(path)
    return Read(settings.stem_width, settings.stem_depth)
""",
    # a mask that each of many layers compares with a number
    "masked.py": HEAD
    + """

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def attend(self, x, mask):
        scores = x @ x.transpose(1, 2)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -10000)
        return self.layer(scores @ x)

    def forward(self, x, own_mask, other_mask):
        return self.attend(self.attend(x, own_mask), other_mask)


class Masked(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width) for _ in range(6)])

    def forward(self, x, own_mask, other_mask):
        for layer in self.layers:
            x = layer(x, own_mask, other_mask)
        return x
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By path and name of the class, what one run of the command says of it; and the findings of each file by its
    path."""
    folder = tmp_path_factory.mktemp("late")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "fxlens_empty_engine").mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    command = warm_fxlens("check", ".", "--quick", "--all", "--format", "json", "--jobs", "2")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    found: dict[str, Any] = {}
    for file in json.loads(done.stdout)["files"]:
        path = file["path"].removeprefix("./")
        found[path] = file["findings"]
        found.update({f"{path}::{each['name']}": each for each in file["targets"]})
    found["begun"] = sorted(each.name for each in folder.glob("begun*"))
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


@pytest.mark.parametrize(
    "name",
    [
        "gone.py::Gone",
        "helped.py::Helped",
        "fetched.py::Weighted",
        "named.py::Named",
        "hub.py::Encoded",
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


def test_arguments_that_fail_in_a_function_without_a_name_are_no_end(checked: dict[str, Any]):
    said = checked["unnamed.py::Unnamed"]
    assert said["status"] == "partial", said["reason"]


def test_a_file_that_is_looked_at_starts_no_program(checked: dict[str, Any]):
    """It has ended well and said nothing, or is missing where the code handles that. Packages start theirs."""
    assert checked["begins.py::Begins"]["status"] == "traced", checked["begins.py::Begins"]["reason"]
    assert checked["begun"] == ["begun_by_package.txt"]
    lines = FILES["begins.py"].splitlines()
    said = [(each["severity"], lines[each["range"]["start"]["line"]], each["message"]) for each in checked["begins.py"]]
    assert {each["code"] for each in checked["begins.py"]} == {"FX313"} and {each[0] for each in said} == {"info"}
    assert [line.split("(")[0].split()[-1] for _, line, _ in said].count("subprocess.check_output") == 1
    for start in ("asyncio.run(", "pty.spawn("):
        assert any(line.strip().startswith(start) for _, line, _ in said), said
    assert any(line.startswith("os.system(") and "`touch begun.txt` was not started" in text for _, line, text in said)


def test_what_is_not_started_is_no_fault_of_the_code(checked: dict[str, Any]):
    assert checked["versioned.py::Versioned"]["status"] == "traced"
    assert [(each["code"], each["severity"]) for each in checked["versioned.py"]] == [("FX311", "info")]


def test_a_default_configuration_is_told(checked: dict[str, Any]):
    said = {each["target"]: each for each in checked["hub.py"] if each["code"] == "FX313"}
    assert set(said) == {"Encoded", "Whole"}
    bert = said["Encoded"]
    assert bert["severity"] == "info" and "`bert-base-uncased` is not on this machine" in bert["message"]
    assert "default configuration of bert" in bert["message"]
    line = FILES["hub.py"].splitlines()[bert["range"]["start"]["line"]]
    assert line.lstrip().startswith("self.text = BertModel")


def test_keywords_that_a_module_chosen_by_its_name_reads_are_those_that_its_code_names(checked: dict[str, Any]):
    said = checked["chosen.py::Chosen"]
    assert said["status"] == "traced", said["reason"]
    assert "scheme='rows'" in said["construct"]["text"] and "pooled_by='most'" in said["construct"]["text"]


def test_what_a_property_lacks_is_what_is_given(checked: dict[str, Any]):
    said = checked["decoders.py::Decoder"]
    assert said["status"] == "traced", said["reason"]
    for text in ("rnn_type='LSTM'", "two_way_encoder=False", "table="):
        assert text in said["construct"]["text"]
    assert checked["decoders.py::DecoderBase"]["reason"] == "its forward is left to its subclasses"


LISTS = {"Smoothed": "Smoothed(taps=[", "Halved": "Halved(profile=(1, 3, 3, 1))", "Blurred": "Blurred()"}


@pytest.mark.parametrize("name", LISTS)
def test_an_argument_is_a_list_where_the_file_says_so(checked: dict[str, Any], name: str):
    said = checked[f"filters.py::{name}"]
    assert said["status"] == "traced", said["reason"]
    assert said["construct"]["text"].startswith(LISTS[name])


def test_an_argument_is_one_of_the_lists_that_the_code_names(checked: dict[str, Any]):
    assert checked["begins.py::Begins"]["construct"]["text"] == "Begins(return_stages=[0, 1, 2])"


def test_of_configurations_in_python_the_smallest_is_read(checked: dict[str, Any]):
    said = checked["detector.py::Detector"]
    assert said["status"] == "traced", said["reason"]
    text = said["construct"]["text"]
    assert "backbone_width=24" in text and "anchor_count=2" in text and "kind='plain'" in text


def test_a_class_of_the_workspace_reads_configurations_in_python(checked: dict[str, Any]):
    said = checked["reader.py::Read"]
    assert (said["status"], said["construct"]["source"]) == ("traced", "workspace"), said["reason"]
    assert said["construct"]["text"] == "Read(12, 3)"


def test_a_mask_that_many_layers_compare_is_a_tensor(checked: dict[str, Any]):
    said = checked["masked.py::Masked"]
    assert said["inputs"]["text"].count("torch.ones(") == 2


def test_a_trial_takes_no_more_memory_than_it_may():
    with pytest.raises(RuntimeError, match="allocate memory"), sandbox.trial(10.0):
        torch.empty(2 * sandbox.MEMORY, dtype=torch.uint8)
    assert torch.empty(1 << 20).numel() == 1 << 20
