"""Small repositories in the styles that real ones are written in, checked with nothing configured by the real
command."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fxlens.features.code_lens import shortened
from fxlens.sources import targets
from lsp_client import Client

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
FILES = {
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
        self.layer = layer(width)

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
    + "class Wide(Block):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(8, 8)\n",
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
    "fxlens.examples.toml": '[["recorded/net.py::Recorded"]]\nconstruct = "Recorded(36)"\n'
    'eval = ["torch.randn(5, 36)"]\n',
}  # fmt: skip


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("repositories")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return run(root)


def run(root: Path, *arguments: str, form: str = "json") -> Any:
    command = [sys.executable, "-m", "fxlens", "check", ".", "--quick", "--format", form, *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout) if form == "json" else done.stdout


def target(checked: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for file in checked["files"] for each in file["targets"] if each["name"] == name)


def findings(checked: dict[str, Any], path: str) -> list[dict[str, Any]]:
    return next(file["findings"] for file in checked["files"] if file["path"].endswith(path))


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("ByArgparse", "workspace", "48"),
        ("ByYaml", "workspace", "40"),
        ("ByDataclass", "assumed", "Config()"),
        ("ByPath", "workspace", "ByPath(28)"),
        ("ByName", "workspace", "ByName.from_name('small')"),
        ("ByRegistry", "workspace", "ByRegistry(20)"),
        ("Part", "workspace", "Part(12)"),
        ("Whole", "default", "Whole()"),
        ("Deep", "workspace", "Deep()"),
        ("Model", "default", "Model()"),
        ("Here", "parent", "Model().get_submodule('here.0')"),
        ("Elsewhere", "parent", ".Model().get_submodule('elsewhere')"),
        ("Recorded", "recorded", "Recorded(36)"),
        ("Plain", "assumed", "Plain("),
        ("Guarded", "assumed", "Guarded("),
        ("Measured", "default", "Measured()"),
        ("Inside", "assumed", "Inside("),
        ("Assumed", "assumed", "Assumed(in_features="),
        ("Around", "assumed", "noisy=True"),
        ("Stages", "assumed", "Layers(attn_layers=["),
        ("Asking", "assumed", "depth=2"),
        ("Filled", "assumed", "kind='affine'"),
    ],
)
def test_each_style_is_traced_and_says_how_its_construction_is_known(checked, name, source, text):
    found = target(checked, name)
    assert found["status"] == "traced", found
    assert found["construct"]["source"] == source and text in found["construct"]["text"], found["construct"]
    assert found["inputs"] is not None


def test_recorded_inputs_come_with_the_recorded_construction(checked):
    assert target(checked, "Recorded")["inputs"]["text"] == "torch.randn(5, 36)"


def test_parts_are_called_as_the_forward_of_their_model_calls_them(checked):
    assert target(checked, "Here")["inputs"]["text"] == "torch.randn(2, 12), torch.randn(2, 1)"
    assert target(checked, "Elsewhere")["inputs"]["text"] == "torch.randn(2, 12), scale=torch.randn(2, 12)"


def test_the_lens_of_a_part_says_which_one_it_is():
    assert shortened(f"Model({', '.join(['depth=12'] * 9)}).get_submodule('blocks.0.attn')") == (
        "Model(depth=12, depth=12, de….get_submodule('blocks.0.attn')"
    )
    assert len(shortened("Model()" * 20)) == 60 and shortened("Model()") == "Model()"


def test_a_part_that_is_kept_is_written_beside_its_own_class():
    text = FILES["by_model/whole.py"].replace("class Here", "# fxlens: Model().get_submodule('here.0')\nclass Here")
    found = {each.name: [source.source for source in each.construct] for each in targets.find(ast.parse(text), text)}
    assert (found["Here"], found["Model"]) == (["comment"], [])


def test_a_module_beside_the_file_that_imports_it_is_found(checked):
    assert findings(checked, "by_path/core/net.py") == []


def test_a_file_without_models_has_no_finding_about_what_was_replaced(checked):
    assert findings(checked, "by_model/tools.py") == []


def test_a_missing_package_is_one_finding_of_grade_info_and_fails_only_where_it_is_used(checked):
    first = findings(checked, "missing/net.py")[0]
    assert (first["code"], first["severity"]) == ("FX311", "info")
    used = [
        (each["code"], each["severity"]) for each in findings(checked, "missing/net.py") if each["target"] == "Uses"
    ]
    assert (target(checked, "Uses")["status"], used) == ("partial", [("FX199", "info")])
    missing = next(each for each in findings(checked, "missing/net.py") if each["target"] == "Uses")
    assert "at `self.layer(x)`: NotInstalled: a_package_that_nobody_has cannot be imported" in missing["message"]
    assert target(checked, "Needs")["status"] == "skipped"
    assert "a_package_that_nobody_has" in target(checked, "Needs")["reason"]
    assert findings(checked, "guarded/net.py") == [], "the code itself provides for that"


def test_what_an_import_in_try_did_not_give_is_no_error_of_the_code(checked):
    (found,) = findings(checked, "optional/net.py")
    assert (found["code"], found["severity"]) == ("FX199", "info") and "'kernels' is not defined" in found["message"]


def test_a_parameter_is_not_taken_for_the_function_of_its_name(checked):
    assert target(checked, "Scaled")["construct"]["text"] != "Scaled(rate)"
    assert target(checked, "Scaled")["status"] == "traced"


def test_an_extension_is_not_compiled(checked):
    (found,) = findings(checked, "compiled/net.py")
    assert found["code"] == "FX311" and "stand for kernel" in found["message"] and found["range"]["start"]["line"] == 2


@pytest.mark.parametrize("name", ["Columns", "Lit", "Before", "After", "Compiled"])
def test_layers_and_bases_of_missing_packages_devices_and_process_groups_are_stood_in_for(checked, name):
    assert target(checked, name)["status"] == "traced", target(checked, name)


def test_a_script_that_raises_gives_its_classes(checked):
    (found,) = findings(checked, "script/train.py")
    assert (found["code"], found["severity"]) == ("FX301", "warning")
    assert "not compiled with CUDA" in found["message"] and "traced without it" in found["message"]


def test_an_import_that_fails_names_the_line_of_the_workspace_and_not_of_python(checked):
    (found,) = findings(checked, "settings/net.py")
    assert (found["code"], found["severity"]) == ("FX301", "warning") and "mutable default" in found["message"]
    assert [each["message"][-13:] for each in found["related"]] == ["of options.py"]


def test_a_package_whose_init_raises_goes_without_it(checked):
    (found,) = findings(checked, "package/net.py")
    assert found["code"] == "FX311" and "made by setup.py" in found["message"]


def test_what_is_assumed_is_never_an_error_and_says_what_was_assumed(checked):
    (found,) = findings(checked, "assumed/faulty.py")
    assert (found["code"], found["severity"]) == ("FX101", "warning")
    assert any("an assumed construction of Faulty: Faulty(width=" in each["message"] for each in found["related"])


def test_the_coverage_counts_what_was_judged_and_what_was_not(checked):
    counts = checked["coverage"]
    for name in ("Base", "Template", "Block"):
        assert target(checked, name)["reason"] == "its forward is left to its subclasses"
    assert (counts["judged"], counts["classes"]) == (40, 41), "Base is left to its subclasses"
    assert counts["notJudged"] == {"cannot be constructed": 1}
    assert counts["assumed"] == 21


def test_the_text_ends_with_the_coverage(tmp_path):
    (tmp_path / "net.py").write_text(FILES["assumed/faulty.py"], encoding="utf-8")
    assert run(tmp_path, form="text").splitlines()[-1] == "1 of 1 class judged, 1 of them on assumed constructions"


VARYING = (
    IMPORTS
    + """class Varying(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x, scale):
        return torch.flatten(self.conv(x), 1) + scale
"""
)
CALLS = """[["net.py::Varying"]]
construct = "Varying()"
eval = ["torch.randn(2, 3, 32, 48), torch.randn(2, 1)", "torch.randn(5, 3, 64, 48), torch.randn(5, 1)"]
"""


def test_dimensions_that_vary_between_recorded_calls_have_names(tmp_path):
    (tmp_path / "net.py").write_text(VARYING, encoding="utf-8")
    (tmp_path / "fxlens.examples.toml").write_text(CALLS, encoding="utf-8")
    with Client(tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path.parent / "cache")}) as client:
        uri = client.open(tmp_path / "net.py")

        def shapes() -> dict[str, Any]:
            record = client.request("fxlens/record", {"uri": uri})["record"]
            return {node["name"]: node["symbolic"] for each in record["targets"] for node in each["nodes"]}

        named = until(shapes)
    assert named["x"] == ["B", 3, "H", 48] and named["scale"] == ["B", 1]
    assert named["conv"] == ["B", 8, "H/2", 24]
    assert named["flatten"] == ["B", "96*H"]


def until(question: Any, seconds: float = 100.0) -> Any:
    """The first answer that is not empty."""
    end = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


def test_the_editor_learns_from_other_files_and_keeps_a_construction(tmp_path):
    for name in ("by_parent/part.py", "by_parent/whole.py", "assumed/net.py"):
        (tmp_path / Path(name).name).write_text(FILES[name], encoding="utf-8")
    with Client(tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path.parent / "cache")}) as client:

        def titles(uri: str) -> list[str]:
            lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
            return [each["command"]["title"] for each in lenses]

        part = client.open(tmp_path / "part.py")
        assert until(lambda: "Part(12) · whole.py:9" in titles(part)), titles(part)

        net = client.open(tmp_path / "net.py")
        assert until(lambda: "Keep this construction" in titles(net)), titles(net)
        at = {"line": 4, "character": 0}
        hover = client.request("textDocument/hover", {"textDocument": {"uri": net}, "position": {**at, "character": 7}})
        assert "Constructed as `Assumed(in_features=" in hover["contents"]["value"]
        assert "(assumed)" in hover["contents"]["value"]
        asked = {"textDocument": {"uri": net}, "range": {"start": at, "end": at}, "context": {"diagnostics": []}}
        actions = client.request("textDocument/codeAction", asked)
        (keep,) = [each for each in actions if each["title"] == "Keep this construction of Assumed (assumed)"]
        (edit,) = keep["edit"]["changes"][net]
        assert edit["newText"].startswith("# fxlens: Assumed(in_features=") and edit["range"]["start"]["line"] == 4
        kept = FILES["assumed/net.py"].replace("class Assumed", f"{edit['newText']}class Assumed")
        client.edit(net, kept)
        assert until(lambda: any("comment" in each for each in titles(net))), titles(net)
        assert "Keep this construction" not in titles(net)
