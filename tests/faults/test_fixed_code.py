"""Fixes that are proven on one model do not change the results of other users of the code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_fxlens

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"

# Each model has a problem whose fix affects other code, or another construction of the model.
FILES = {
    "attribute_of_a_part": """
class Inner(nn.Module):
    def forward(self, x):
        self.kept = x * 2
        return self.kept.relu()


# fxlens: Outer() <- torch.randn(3, 4)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + self.inner.kept
""",
    "attribute_by_its_name": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def loss(self):
        return getattr(self, "kept").mean()

    def forward(self, x):
        self.kept = x * 2
        return self.kept.relu()
""",
    "method_that_a_child_overrides": """
# fxlens: Base() <- torch.randn(3, 4)
class Base(nn.Module):
    def other(self, x):
        return x * 3

    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return self.other(x)


# fxlens: Child() <- torch.randn(3, 4)
class Child(Base):
    def other(self, x):
        return x.mean()
""",
    "function_for_lists": """
def count(items):
    return len(items)


# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def forward(self, x):
        return x * count(x)


# fxlens: Other() <- torch.randn(3, 4)
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU()])

    def forward(self, x):
        return x * count(self.layers)
""",
    "constructor_that_a_child_leaves_out": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5, self.training)


# fxlens: Child() <- torch.randn(3, 4)
class Child(Net):
    def __init__(self):
        nn.Module.__init__(self)
        self.layer = nn.Linear(4, 4)
""",
    "constructor_that_returns_early": """
# fxlens: Net(True) <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self, large=False):
        super().__init__()
        if not large:
            return
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return F.dropout(x, 0.5, self.training)
""",
    "rate_that_changes": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 0.5

    def anneal(self):
        self.rate = 0.0

    def forward(self, x):
        return F.dropout(x, self.rate, self.training)
""",
    "list_of_layers_as_a_list": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]

    def extra_repr(self):
        return str(self.layers.index(self.layers[0]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    "static_forward": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    @staticmethod
    def forward(x):
        return x * 2


class Child(Net):
    pass


# fxlens: Other() <- torch.randn(3, 4)
class Other(nn.Module):
    def forward(self, x):
        return Child.forward(x) + 1
""",
    "assertion_on_the_line_of_its_if": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self, strict=True):
        super().__init__()
        self.strict = strict

    def forward(self, x):
        if self.strict: assert x.dim() == 2 and x.size(1) == 4, "shape"
        return x * 2
""",
    "buffer_updated_without_gradients": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            mean = self.average.mul_(0.9).add_(0.1 * y.mean(0))
        return y - mean
""",
    "layer_with_weights_made_anew": """
# fxlens: Net() <- torch.randn(3, 4)
class Net(nn.Module):
    def forward(self, x):
        return nn.LayerNorm(4)(x)
""",
}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory, warm_python: Path) -> Path:
    folder = tmp_path_factory.mktemp("fixes")
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(HEAD + text.lstrip("\n"))
    (folder / "parts.py").write_text("import numpy as np\n\n\ndef root(x):\n    return np.sqrt(x) + x.abs()\n")
    (folder / "takes_an_import.py").write_text(
        HEAD + "from parts import *\n\n\n# fxlens: Net() <- torch.rand(3, 4)\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        return root(x) * np.pi\n"
    )
    (folder / "kinds.py").write_text(
        "import numpy as np\n" + HEAD + "# fxlens: Net(float(np.pi)) <- torch.randn(4, 4)\nclass Net(nn.Module):\n"
        "    def __init__(self, scale=1.0):\n        super().__init__()\n\n"
        "    def forward(self, x):\n        a = list(x.chunk(2, 1))\n"
        "        return {'half': np.floor(x.shape[0] / 2), 'parts': a}\n"
    )
    command = warm_fxlens("check", "--fix", "--all", "--no-cache", ".")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "VIRTUAL_ENV": str(warm_python / "plain")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    return folder


# These have another fix, which moves code into a function and changes nothing.
WRONG = {
    "function_for_lists": ".shape",
    "method_that_a_child_overrides": "torch.where",
    "assertion_on_the_line_of_its_if": "torch._assert",
    "layer_with_weights_made_anew": "__init__",
}


@pytest.mark.parametrize("name", FILES)
def test_what_others_rely_on_is_left(fixed: Path, name: str, report):
    text = (fixed / f"{name}.py").read_text()
    if name in WRONG:
        assert WRONG[name] not in text
    else:
        assert text == HEAD + FILES[name].lstrip("\n")
    report(outcome="left as it was" if name not in WRONG else "fixed in another way")


def test_imports_and_kinds_of_results_stay(fixed: Path, report):
    assert "import numpy as np" in (fixed / "parts.py").read_text()
    text = (fixed / "kinds.py").read_text()
    assert "import numpy as np" in text and "math.floor" not in text and "list(" in text
    report(outcome="what others import, and the classes of results, are as before")
