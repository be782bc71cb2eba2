"""What the code of third parties says of the arguments of its classes: lists, names of modules, configurations."""

from __future__ import annotations

from typing import Any

import pytest
from strangers import HEAD, judged

FILES = {
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
    return judged(tmp_path_factory, FILES)


def test_arguments_that_fail_in_a_function_without_a_name_are_no_end(checked: dict[str, Any]):
    said = checked["unnamed.py::Unnamed"]
    assert said["status"] == "partial", said["reason"]


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
