"""Examples of rules that need files executed as a whole, so `diagnose` alone cannot show them: the set-up rules, and
what goes wrong between two files."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SETUP_EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """Files by name, ``net.py`` first among equals; ``how`` says how to see the finding, where it takes more than
    `fxlens check`."""

    bad: dict[str, str]
    good: dict[str, str]
    how: str = ""


def _one(bad: str, good: str, how: str = "") -> Example:
    return Example({"net.py": bad}, {"net.py": good}, how)


_HEAD = "import torch\nfrom torch import nn\n\n\n"
_NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_SIZED = (
    "class Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    "        self.linear = nn.Linear(width, width)\n\n    def forward(self, x):\n        return self.linear(x)\n"
)
_TABLE = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.table = bytearray({size})\n\n    def forward(self, x):\n        return x * len(self.table)\n"
)
_WAITING = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.ready = {ready}\n\n"
    "    def forward(self, x):\n        while not self.ready:\n            pass\n        return x * 2\n"
)
_HELPER = "import torch.fx\n\n\n@torch.fx.wrap\ndef limited(x):\n    return x.clamp(max=1.0)\n"
_CALLER = (
    "{head}from helpers import limited\n{wrap}\n\n# fxlens: Net() <- torch.randn(1, 3)\n"
    "class Net(nn.Module):\n    def forward(self, x):\n        return limited(x) * 2\n"
)

SETUP_EXAMPLES: dict[str, Example] = {
    "FX229": Example(
        {"helpers.py": _HELPER, "net.py": _CALLER.format(head="from torch import nn\n\n", wrap="")},
        {
            "helpers.py": _HELPER.replace("import torch.fx\n\n\n@torch.fx.wrap\n", ""),
            "net.py": _CALLER.format(
                head="import torch.fx\nfrom torch import nn\n\n", wrap='\ntorch.fx.wrap("limited")\n'
            ),
        },
    ),
    "FX301": _one("import torch_that_is_not_there\n" + _HEAD + _NET, _HEAD + _NET),
    "FX302": _one(_HEAD + _SIZED, _HEAD + "# fxlens: Net(8) <- torch.randn(1, 8)\n" + _SIZED),
    "FX303": _one(
        _HEAD + "# fxlens: Net() <- torch.randn(1, 3), torch.randn(1, 3)\n" + _NET,
        _HEAD + "# fxlens: Net() <- torch.randn(1, 3)\n" + _NET,
    ),
    "FX304": _one(
        _HEAD + _WAITING.format(ready=False),
        _HEAD + _WAITING.format(ready=True),
        "Seen sooner with `fxlens check --deadline 3`.",
    ),
    "FX305": _one(
        "import ctypes\n\n" + _HEAD + _NET.replace("return x * 2", "return x * ctypes.string_at(0)"),
        _HEAD + _NET,
    ),
    "FX306": _one(
        "import sys\n\n" + _HEAD + _NET + "\n\nsys.exit(Net()(torch.ones(1)).item() > 0)\n",
        "import sys\n\n"
        + _HEAD
        + _NET
        + '\n\nif __name__ == "__main__":\n    sys.exit(Net()(torch.ones(1)).item() > 0)\n',
    ),
    "FX307": _one(_HEAD + _TABLE.format(size="1 << 60"), _HEAD + _TABLE.format(size="1 << 10")),
    "FX308": _one(_HEAD + _NET.replace("x * 2", "x * (2"), _HEAD + _NET),
    "FX309": _one(
        _HEAD + _NET,
        _HEAD + _NET,
        "The file is in order. Seen with an interpreter that has no torch: `fxlens check --python /usr/bin/python3`.",
    ),
    "FX310": _one(
        _HEAD + _NET.replace("return x * 2", "return self.forward(x * 2)"),
        _HEAD + _NET,
    ),
}
