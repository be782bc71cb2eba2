"""Features of older third-party repositories, and of those for missing devices: names that packages no longer have,
packages that the code goes on without, classes inside of decorators, extensions that constructors compile."""

from __future__ import annotations

from typing import Any

import pytest
from strangers import HEAD, judged

FORWARD = """
    def forward(self, x):
        return self.layer(x)
"""
WHERE = "import inspect\n\ninspect.getmodule(inspect.currentframe())\n"
FILES = {
    # names of earlier versions
    "older.py": "from collections import Iterable\n\nimport numpy as np\n"
    + HEAD
    + f"""from torch._six import container_abcs
from torchvision.models import resnet

URL = resnet.model_urls["resnet18"].replace("https://", "http://")


class Older(nn.Module):
    def __init__(self, widths=(8, 4)):
        super().__init__()
        assert isinstance(widths, Iterable) and isinstance(widths, container_abcs.Iterable)
        sizes = np.array(widths, dtype=np.float)
        self.layer = nn.Linear(int(sizes[0]), int(sizes[1]))
{FORWARD}""",
    "moved.py": HEAD
    + f"""from timm.models.layers.helpers import to_2tuple
from torchvision.transforms.functional_tensor import _hsv2rgb
from transformers.configuration_bert import BertConfig


class Moved(nn.Module):
    def __init__(self):
        super().__init__()
        assert (to_2tuple.__module__, _hsv2rgb.__module__, BertConfig(num_labels=4).num_labels) == (
            "timm.layers.helpers", "torchvision.transforms._functional_tensor", 4
        )
        self.layer = nn.Linear(*to_2tuple(4))
{FORWARD}""",
    # a decorator that takes other arguments now, and a file that has the name of its package
    "documented.py": HEAD
    + """import functools


class Documented(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    @functools.singledispatchmethod(tokenizer_class="Small")
    def forward(self, x):
        return self.layer(x)
""",
    "run/shop/models/base.py": HEAD + WHERE + "\n\nclass Base(nn.Module):\n    pass\n",
    "run/shop/models/shop.py": HEAD
    + WHERE
    + f"""from shop.models.base import Base


class Shop(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
{FORWARD}""",
    # a script that reads its data with a package that is missing
    "reads_data.py": HEAD
    + f"""import fxlens_no_such_h5 as h5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
{FORWARD}

with h5.File("data.h5") as file:
    labels = file["labels"]
""",
    # the old constructor has data on whatever device is the default, and other layers are on meta
    "mixed.py": HEAD
    + """

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.seeds = nn.Parameter(torch.Tensor(1, 4))
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x + self.seeds) * self.layer.state_dict()["weight"].abs().max().item()
""",
    # packages that the code goes on without
    "fallback.py": HEAD
    + f"""
try:
    from fxlens_no_such_package.ops import Deformed
except ImportError:
    Deformed = None
try:
    from fxlens_no_such_package.norm import FastNorm
    from fxlens_no_such_package.utils import get_root_logger
    from fxlens_no_such_package.runner import _load_checkpoint
except:
    print("slow")


class Falls(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Deformed(4, 4)
{FORWARD}

class Prints(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = FastNorm(4)
{FORWARD}

class Loads(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(width, width)
        logger = get_root_logger()
        missing, unexpected = self.load_state_dict(_load_checkpoint("a.pth", logger=logger), False)
{FORWARD}""",
    # parts that a missing package makes
    "parts.py": HEAD
    + """from fxlens_no_such_package import create_model, Backbone


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = create_model("small").encoder
        self.other = Backbone.from_name("small")
        self.head = nn.Linear(self.encoder.out_channels[-1], 4)

    def forward(self, x):
        return self.head(self.encoder(x) + self.other(x))


class Computes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(create_model("small").depth() + 1, 4)

    def forward(self, x):
        return self.layer(x)
""",
    # constants of sound
    "sound.py": HEAD
    + """from librosa.filters import mel
from scipy.signal import convolve, get_window
from torchaudio.functional import create_dct


class Sound(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.register_buffer("window", torch.from_numpy(get_window("hann", size, fftbins=True)).float())
        self.register_buffer("filters", torch.from_numpy(mel(sr=16000, n_fft=size, n_mels=10)).float())
        self.register_buffer("cosines", create_dct(4, 10, "ortho"))
        assert abs(convolve([[1, 2], [3, 4]], [[1, 2, 3]]) - [[1, 4, 7, 6], [3, 10, 17, 12]]).max() < 1e-9
        assert abs(convolve([1, 2, 3], [0, 1, 1], "same") - [1, 3, 5]).max() < 1e-9

    def forward(self, x):
        spectrum = torch.stft(x, 64, 16, 64, self.window, return_complex=True).abs()
        return (self.filters @ spectrum).transpose(1, 2) @ self.cosines
""",
    # a class around each class, tensors for a device that is not there, a helper that takes anything
    "persistent.py": HEAD
    + """

def persistent(kind):
    class Decorator(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    Decorator.__name__ = kind.__name__
    return Decorator


def assert_size(size, wanted):
    if wanted is not None and isinstance(wanted, torch.Tensor):
        torch._assert(torch.equal(torch.as_tensor(size), wanted), "size")


@persistent
class Persistent(nn.Module):
    def __init__(self, in_channels, w_dim, device="cuda"):
        super().__init__()
        self.register_buffer("filter", torch.as_tensor([1.0, 2.0]).to(torch.device("cpu")))
        self.weight = nn.Parameter(torch.randn([w_dim, in_channels], device=device))
        self.w_dim = w_dim

    def forward(self, x):
        assert_size(8, self.w_dim)
        return x @ self.weight.t()
""",
    # an extension that is compiled when it is needed
    "compiled.py": HEAD
    + f"""from torch.utils.cpp_extension import load


def grid(width):
    backend = load(name="fxlens_no_such_extension", sources=["no.cu"])
    return nn.Linear(width, 4)


class Compiled(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = grid(width)
{FORWARD}""",
    # what protobuf has written, of which each statement raises
    "messages_pb2.py": "".join(f"FIELD_{at} = FieldDescriptor({at})\n" for at in range(9)),
    "reads_messages.py": HEAD
    + f"""import messages_pb2 as messages


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds = [messages.Layer.KIND, messages.FIELD_1]
        self.layer = nn.Linear(8, 4)
{FORWARD}""",
    # texts that name something, and keywords that are asked for
    "kinds.py": HEAD
    + f"""

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
{FORWARD}""",
    "named.py": HEAD
    + f"""import kinds
from fxlens_no_such_package import DictConfig


class Named(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.layer = getattr(kinds, spec)()
{FORWARD}

class Method(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.compute = getattr(self, how + "_distance")

    def near_distance(self, x):
        return x + 1

    def forward(self, x):
        return self.compute(x)


class Asks(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        assert "width" in kwargs, "width not found"
        self.layer = nn.Linear(kwargs["width"], 4)
{FORWARD}

class Noted(nn.Module):
    def __init__(self, config: DictConfig):
        super().__init__()
        sizes = [int(each) for each in config.layers.split("-")]
        self.layer = nn.Linear(config.width, sizes[0])
{FORWARD}""",
    # modules of a package, one of which an argument names
    "networks/wide.py": HEAD
    + f"""

class Main(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
{FORWARD}""",
    "chooses.py": HEAD
    + f"""import importlib


class Chooses(nn.Module):
    def __init__(self, network, unused):
        super().__init__()
        self.layer = importlib.import_module("networks." + network).Main()
{FORWARD}""",
    # a configuration whose file comes over defaults, and of which a part has a name of its own
    "settings.py": """from yacs.config import CfgNode as CN

_C = CN()
_C.SEED = 1
_C.WORKERS = 2
_C.MODEL = CN()
_C.MODEL.CLASSES = 7
_C.MODEL.EXTRA = CN(new_allowed=True)


def update(cfg, args):
    cfg.defrost()
    cfg.merge_from_file(args.cfg)
    cfg.freeze()
""",
    "stages.py": HEAD
    + """

class Stages(nn.Module):
    def __init__(self, cfg, **kwargs):
        super().__init__()
        extra = cfg.MODEL.EXTRA
        self.stages = nn.Sequential(*(nn.Linear(8, 8) for _ in extra.STAGE["BLOCKS"]))
        self.head = nn.Linear(8, cfg["MODEL"]["CLASSES"], bias=extra.BIAS)

    def forward(self, x):
        return self.head(self.stages(x))


def get_net(cfg, training, **kwargs):
    return Stages(cfg, **kwargs)
""",
    "experiments/wide.yaml": "SEED: 3\nMODEL:\n  EXTRA:\n    BIAS: false\n    STAGE:\n      BLOCKS: [1, 2, 3]\n",
    # a base that nobody knows, and a README that constructs the class
    "quantized.py": HEAD
    + """from fxlens_no_such_package.bases import ConditionerBase


class Quantized(ConditionerBase):
    def __init__(self, names, widths):
        super().__init__()
        assert len(names) == len(widths)
        self.layer = nn.Linear(sum(widths), 4)

    def forward(self, x):
        return self.layer(x)
""",
    "README.md": "# Quantized\n\n```python\nfrom quantized import Quantized\n\n"
    'net = Quantized(names=("a", "b"), widths=(8, 4))\n```\n',
    # groups of processes
    "groups.py": """_GROUP = None
_WORLD_SIZE = None


def get_model_parallel_group():
    assert _GROUP is not None, "model parallel group is not initialized"
    return _GROUP


def get_model_parallel_world_size():
    return _WORLD_SIZE or len(get_model_parallel_group())
""",
    "parallel.py": HEAD
    + f"""from groups import get_model_parallel_world_size


class Column(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.layer = nn.Linear(in_features, out_features // get_model_parallel_world_size())
{FORWARD}""",
    # arguments of an earlier timm, by name and by place
    "blocks.py": HEAD
    + """from timm.models.vision_transformer import Attention, Block


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(dim=8, num_heads=2, mlp_ratio=2.0, qkv_bias=True, qk_scale=0.5, drop=0.1)
        self.attention = Attention(8, 2, True, None, 0.2, 0.3)
        self.last = Short(8, 2, 2.0)

    def forward(self, x):
        return self.last(self.attention(self.first(x)))


class Short(Block):
    def __init__(self, dim, heads, ratio, bias=False, scale=None, drop=0.0):
        super().__init__(dim, heads, ratio, bias, scale, drop, 0.0, 0.0, nn.GELU, nn.LayerNorm)

    def forward(self, x):
        return x + self.drop_path(self.attn(self.norm1(x)))
""",
    # failures whose reason is not where they are raised
    "reasons.py": HEAD
    + """import numpy as np
from timm.layers import drop_path


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self, x, **kwargs):
        return x * 2


class Drops(nn.Module):
    def __init__(self, rate=None):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return drop_path(x, self.rate, self.training)


class Logs(nn.Module):
    def forward(self, x):
        size = x.shape[-1]
        return x * np.log(size)


class Moves(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        self.layer.to(x.device)
        return self.layer(x)
""",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


JUDGED = {
    "documented.py::Documented": "default", "run/shop/models/shop.py::Shop": "default",
    "older.py::Older": "default", "mixed.py::Mixed": "default", "sound.py::Sound": "default",
    "persistent.py::Persistent": "assumed", "blocks.py::Stack": "default", "blocks.py::Short": "call",
    "compiled.py::Compiled": "default", "named.py::Named": "assumed", "named.py::Method": "assumed",
    "chooses.py::Chooses": "assumed", "named.py::Asks": "assumed", "named.py::Noted": "assumed",
    "stages.py::Stages": "workspace",
    "quantized.py::Quantized": "workspace", "reads_messages.py::Reads": "default", "parallel.py::Column": "assumed",
}  # fmt: skip


def of(checked: dict[str, Any], name: str) -> list[tuple[str, str, str]]:
    """Code, severity and message of the findings in a class."""
    path, _, kind = name.partition("::")
    return [(each["code"], each["severity"], each["message"]) for each in checked[path] if each["target"] == kind]


@pytest.mark.parametrize("name", JUDGED)
def test_judged(checked: dict[str, Any], name: str):
    assert (checked[name]["status"], checked[name]["construct"]["source"]) == ("traced", JUDGED[name]), checked[name]
    assert not [each for each in of(checked, name) if each[1] == "error"]


def test_a_statement_that_fails_for_a_missing_package_says_so(checked: dict[str, Any]):
    (failed,) = [each for each in checked["reads_data.py"] if each["code"] == "FX301"]
    assert failed["severity"] == "info"
    assert failed["message"].startswith("This statement uses a package that cannot be imported.")
    assert checked["reads_data.py::Net"]["status"] == "traced"


def test_what_earlier_versions_had_is_told(checked: dict[str, Any]):
    told = " ".join(each["message"] for each in checked["older.py"] if each["code"] == "FX311")
    for name in ("collections.Iterable", "torchvision.models.resnet.model_urls", "numpy.float"):
        assert name in told.partition("Only earlier versions have ")[2]
    assert not [each for each in checked["older.py"] if each["code"] == "FX301"]
    (told,) = [each["message"] for each in checked["moved.py"] if each["code"] == "FX311"]
    assert "Only earlier versions have timm.models.layers.helpers" in told and "replace" not in told
    assert checked["moved.py::Moved"]["status"] == "traced"


def test_a_decorator_that_was_left_out_is_told(checked: dict[str, Any]):
    (found,) = checked["documented.py"]
    assert (found["code"], found["severity"]) == ("FX311", "info")
    assert found["message"].startswith("The decorator at line 11 of documented.py was left out, since it raises")


@pytest.mark.parametrize("name", ["fallback.py::Falls", "fallback.py::Prints", "parts.py::Parts"])
def test_what_a_package_lacks_is_told_where_it_is_used(checked: dict[str, Any], name: str):
    assert checked[name]["status"] == "partial"
    assert {(code, severity) for code, severity, _ in of(checked, name)} == {("FX199", "info")}
    assert all("fxlens_no_such_package cannot be imported" in message for *_, message in of(checked, name))


def test_a_constructor_may_need_several_names_that_a_package_lacks(checked: dict[str, Any]):
    assert checked["fallback.py::Loads"]["status"] == "traced"


def test_no_placeholder_stands_for_a_module_whose_name_was_guessed(checked: dict[str, Any]):
    assert not checked["chooses.py"]
    assert "network='wide'" in checked["chooses.py::Chooses"]["construct"]["text"]


def test_a_number_of_what_is_not_there_cannot_be_computed(checked: dict[str, Any]):
    assert checked["parts.py::Computes"]["status"] == "skipped"
    assert "fxlens_no_such_package cannot be imported" in checked["parts.py::Computes"]["reason"]


def test_a_file_comes_over_the_defaults(checked: dict[str, Any]):
    text = checked["stages.py::Stages"]["construct"]["text"]
    assert "'CLASSES': 7" in text and "'BLOCKS': [1, 2, 3]" in text and "'SEED': 3" in text


def test_the_reason_is_told(checked: dict[str, Any]):
    ((code, _, message),) = [each for each in of(checked, "reasons.py::Decorated") if each[0] != "FX212"]
    assert code == "FX190" and "finds the function of a decorator instead" in message
    (drops,) = of(checked, "reasons.py::Drops")
    assert drops[0] == "FX199" and "at `drop_path(x, self.rate, self.training)`: TypeError" in drops[2]
    assert [code for code, *_ in of(checked, "reasons.py::Moves")] == ["FX102"]
    (logs,) = of(checked, "reasons.py::Logs")
    assert logs[0] == "FX140" and "call it in a wrapped function" in logs[2] and "torch function of" not in logs[2]


def test_arguments_of_earlier_versions_are_told(checked: dict[str, Any]):
    told = " ".join(each["message"] for each in checked["blocks.py"] if each["code"] == "FX311")
    assert "Block(qk_scale)" in told and "Attention(qkv_bias)" in told


def test_a_package_in_place_of_a_file_can_be_looked_for(checked: dict[str, Any]):
    (said,) = checked["run/shop/models/shop.py"]
    assert said["code"] == "FX311" and "is a built-in module" not in said["message"]
