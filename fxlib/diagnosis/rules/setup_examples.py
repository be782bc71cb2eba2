"""Examples of the set-up rules: they need a file that is executed as a whole, so `diagnose` alone cannot show them."""

from __future__ import annotations

__all__ = ["SETUP_EXAMPLES"]

_HEAD = "import torch\nfrom torch import nn\n\n\n"
_NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_SIZED = (
    "class Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    "        self.linear = nn.Linear(width, width)\n\n    def forward(self, x):\n        return self.linear(x)\n"
)

# code -> (a file that gives the finding, the file mended)
SETUP_EXAMPLES: dict[str, tuple[str, str]] = {
    "FX301": ("import torch_that_is_not_there\n" + _HEAD + _NET, _HEAD + _NET),
    "FX302": (_HEAD + _SIZED, _HEAD + "# fxlens: Net(8) <- torch.randn(1, 8)\n" + _SIZED),
    "FX303": (
        _HEAD + "# fxlens: Net() <- torch.randn(1, 3), torch.randn(1, 3)\n" + _NET,
        _HEAD + "# fxlens: Net() <- torch.randn(1, 3)\n" + _NET,
    ),
    "FX305": (
        "import ctypes\n\n" + _HEAD + _NET.replace("return x * 2", "return x * ctypes.string_at(0)"),
        _HEAD + _NET,
    ),
    "FX306": (
        "import sys\n\n" + _HEAD + _NET + "\n\nsys.exit(Net()(torch.ones(1)).item() > 0)\n",
        "import sys\n\n"
        + _HEAD
        + _NET
        + '\n\nif __name__ == "__main__":\n    sys.exit(Net()(torch.ones(1)).item() > 0)\n',
    ),
    "FX308": (_HEAD + _NET.replace("x * 2", "x * (2"), _HEAD + _NET),
    "FX310": (
        _HEAD + _NET.replace("return x * 2", "return self.forward(x * 2)"),
        _HEAD + _NET,
    ),
}
