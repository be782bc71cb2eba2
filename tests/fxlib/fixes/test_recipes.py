"""Every recipe: the exact text it writes, that torch.fx then traces it, and that eager computes what it did before."""

from __future__ import annotations

import sys
import types

import pytest
import torch
import torch.fx
from torch import nn

from .marked import HEAD, applied, fixes_of, net

X = (torch.linspace(-2, 3, 12).reshape(3, 4),)
CUBE = (torch.linspace(-2, 3, 24).reshape(2, 3, 4),)
NUMPY = "import math\n\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"

# recipe, source with the marked place, inputs, texts that the fixed file holds, place among the drafts
CASES = {
    "len": ("len-to-shape", net("return x / «len(x)»\n"), X, ["return x / x.shape[0]"], 0),
    "len-of-sum": ("len-to-shape", net("return x / «len(x + 1)»\n"), X, ["x / (x + 1).shape[0]"], 0),
    "len-of-shape": ("len-to-shape", net("return x / «len(x.shape)»\n"), X, ["x / x.ndim"], 0),
    "where-else": (
        "if-to-where",
        net("if «x.sum() > 0»:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y\n"),
        X,
        ["        y = torch.where(x.sum() > 0, x + 1, x - 1)\n        return y\n"],
        0,
    ),
    "where-no-else": (
        "if-to-where",
        net("y = x * 2\nif «x.sum()»:\n    y = y + 1\nreturn y\n"),
        X,
        ["y = torch.where(x.sum() != 0, y + 1, y)"],
        0,
    ),
    "where-comments": (
        "if-to-where",
        net(
            "y = x * 2\nif «y.sum() > 0»:  # big\n    # halve\n    y = y / 2\nelse:  # small\n"
            "    y = y * 2  # double\nreturn y\n"
        ),
        X,
        [
            "        # big\n        # halve\n        # small\n"
            "        y = torch.where(y.sum() > 0, y / 2, y * 2)  # double\n"
        ],
        0,
    ),
    "where-augmented": (
        "if-to-where",
        net("y = x * 2\nif «x.max() > 1»:\n    y *= x - 1\nreturn y\n"),
        X,
        ["y = torch.where(x.max() > 1, y * (x - 1), y)"],
        0,
    ),
    "where-not-and": (
        "if-to-where",
        net("y = x * 2\nif not «(x > 0).all()» and x.mean() < 5:\n    y = y + 1\nreturn y\n"),
        X,
        ["y = torch.where(torch.logical_and(torch.logical_not((x > 0).all()), x.mean() < 5), y + 1, y)"],
        0,
    ),
    "where-chained": (
        "if-to-where",
        net("y = x * 2\nif «0 < x.mean() < 2»:\n    y = y + 1\nreturn y\n"),
        X,
        ["y = torch.where((0 < x.mean()) & (x.mean() < 2), y + 1, y)"],
        0,
    ),
    "where-return": (
        "if-to-where",
        net("if «x.sum() > 0»:\n    return x + 1\nreturn x - 1\n"),
        X,
        ["        return torch.where(x.sum() > 0, x + 1, x - 1)\n"],
        0,
    ),
    "where-return-else": (
        "if-to-where",
        net("if «x.sum() > 0»:\n    return x + 1\nelse:\n    return x - 1\n"),
        X,
        ["return torch.where(x.sum() > 0, x + 1, x - 1)"],
        0,
    ),
    "where-two-names": (
        "if-to-where",
        net("if «x.sum() > 0»:\n    a = x + 1\n    b = x * 3\nelse:\n    a = x - 1\n    b = x\nreturn a + b\n"),
        X,
        [
            "condition = x.sum() > 0\n        a = torch.where(condition, x + 1, x - 1)\n"
            "        b = torch.where(condition, x * 3, x)"
        ],
        0,
    ),
    "where-ternary": (
        "if-to-where",
        net("return x + 1 if «x.sum() > 0» else x - 1\n"),
        X,
        ["return torch.where(x.sum() > 0, x + 1, x - 1)"],
        0,
    ),
    "split-comparison": (
        "split-comparison",
        net("return x * («0 < x.sum() < 10»)\n"),
        X,
        ["x * ((0 < x.sum()) & (x.sum() < 10))"],
        0,
    ),
    "assert": (
        "torch-assert",
        net('assert «x.shape[1] == 4», "four columns"\nreturn x * 2\n'),
        X,
        ['torch._assert(x.shape[1] == 4, "four columns")'],
        0,
    ),
    "assert-bare": (
        "torch-assert",
        net("assert «x.dim() == 2»\nreturn x * 2\n"),
        X,
        ['torch._assert(x.dim() == 2, "x.dim() == 2")'],
        0,
    ),
    "assert-and": (
        "torch-assert",
        net("assert «x.dim() == 2» and x.shape[0] > 1, 'no'\nreturn x * 2\n"),
        X,
        ["torch._assert(x.dim() == 2, 'no')\n        torch._assert(x.shape[0] > 1, 'no')"],
        0,
    ),
    "maximum": (
        "torch-maximum",
        net("return «max(x[0].sum(), x[1].sum())» * x\n"),
        X,
        ["torch.maximum(x[0].sum(), x[1].sum()) * x"],
        0,
    ),
    "clamp": ("torch-maximum", net("return «max(x.sum(), 0.5)» * x\n"), X, ["x.sum().clamp(min=0.5) * x"], 0),
    "view": ("view-concat", net("return x.view(«*x.shape[:1]», -1)\n"), CUBE, ["x.view(x.shape[:1] + (-1,))"], 0),
    "view-after": (
        "view-concat",
        net("return x.reshape(-1, «*x.shape[2:]»)\n"),
        CUBE,
        ["x.reshape((-1,) + x.shape[2:])"],
        0,
    ),
    "view-two": (
        "view-concat",
        net("return x.reshape(x.shape[0], «*x.shape[1:]», 1)\n"),
        CUBE,
        ["x.reshape((x.shape[0],) + x.shape[1:] + (1,))"],
        0,
    ),
    "unpack": (
        "unpack-index",
        net("b, *rest = «x.shape»\nreturn x.new_ones(rest) * x / b\n"),
        CUBE,
        ["b, rest = x.shape[0], x.shape[1:]"],
        0,
    ),
    "unpack-unused": ("unpack-index", net("b, *_ = «x.shape»\nreturn x / b\n"), CUBE, ["        b = x.shape[0]\n"], 0),
    "unpack-last": (
        "unpack-index",
        net("*_, h, w = «x.shape»\nreturn x / h + w\n"),
        CUBE,
        ["h, w = x.shape[-2], x.shape[-1]"],
        0,
    ),
    "star-in-value": (
        "unpack-index",
        net("b, c, h = *«x.shape», 2\nreturn x.reshape(c, b) * h\n"),
        X,
        ["b, c, h = x.shape[0], x.shape[1], 2\n"],
        0,
    ),
    "star-in-value-before": (
        "unpack-index",
        net("h, b, c = 2, *«x.shape»\nreturn x.reshape(c, b) * h\n"),
        X,
        ["h, b, c = 2, x.shape[0], x.shape[1]\n"],
        0,
    ),
    "stars-on-both-sides": (
        "unpack-index",
        net("b, *_, k, h = *«x.shape», 2\nreturn x.reshape(k, -1, b) * h\n"),
        CUBE,
        ["b, k, h = x.shape[0], x.shape[-1], 2\n"],
        0,
    ),
    "stars-on-both-sides-read": (
        "unpack-index",
        net("b, *rest, h = *«x.shape», 2\nreturn x.reshape(b, rest[0] * rest[1]) * h\n"),
        CUBE,
        ["b, rest, h = x.shape[0], x.shape[1:], 2\n"],
        0,
    ),
    "map-of-items": (
        "unpack-count",
        net("parts = x.chunk(2, 1)\na, b = «map(lambda t: t * 2, parts)»\nreturn a - b\n"),
        X,
        ["a, b = map(lambda t: t * 2, (parts[0], parts[1]))\n"],
        0,
    ),
    "comprehension-of-items": (
        "unpack-count",
        net("parts = x.chunk(2, 1)\n(a, b) = [t * 2 for t in «parts»]\nreturn a - b\n"),
        X,
        ["(a, b) = [t * 2 for t in (parts[0], parts[1])]\n"],
        0,
    ),
    "list": ("drop-list", net("return torch.cat(list(«x.chunk(2, 1)»), 0)\n"), X, ["torch.cat(x.chunk(2, 1), 0)"], 0),
    "list-indexed": (
        "drop-list",
        net("parts = list(«x.chunk(2, 1)»)\nreturn parts[0] * parts[1]\n"),
        X,
        ["parts = x.chunk(2, 1)\n"],
        0,
    ),
    "count-comprehension": (
        "fixed-count",
        net("return torch.stack([p * 2 for p in «x.chunk(2, dim=1)»])\n"),
        X,
        ["parts = x.chunk(2, dim=1)\n        return torch.stack([p * 2 for p in (parts[0], parts[1])])"],
        0,
    ),
    "count-for": (
        "fixed-count",
        net("y = 0\nfor p in «torch.chunk(x, 2, 1)»:\n    y = y + p\nreturn y\n"),
        X,
        ["parts = torch.chunk(x, 2, 1)\n        for p in (parts[0], parts[1]):"],
        0,
    ),
    "size-tuple": (
        "size-tuple",
        net("return x + «torch.zeros(x.shape[0], 4)»\n"),
        X,
        ["torch.zeros((x.shape[0], 4))"],
        0,
    ),
    "size-tuple-keyword": (
        "size-tuple",
        net("return x + «torch.ones(x.shape[0], 4, dtype=x.dtype)»\n"),
        X,
        ["torch.ones((x.shape[0], 4), dtype=x.dtype)"],
        0,
    ),
    "size-of-an-older-constructor": (
        "size-tuple",
        net("return x + «torch.BoolTensor(x.size())».fill_(0)\n"),
        X,
        ["return x + torch.empty(x.size(), dtype=torch.bool).fill_(0)"],
        0,
    ),
    "sizes-of-an-older-constructor": (
        "size-tuple",
        net("return x + «torch.Tensor(x.shape[0], 4)».zero_()\n"),
        X,
        ["return x + torch.empty((x.shape[0], 4)).zero_()"],
        0,
    ),
    "drop-variable": ("drop-variable", net("return «torch.autograd.Variable(x + 1)» * 2\n"), X, ["(x + 1) * 2"], 0),
    "flip-shape": ("flip", net("return x.reshape(tuple(«reversed(x.shape)»))\n"), X, ["x.reshape(x.shape[::-1])"], 0),
    "floor": ("floor-div", net("return x[:, : «int(x.shape[1] / 2)»]\n"), X, ["x[:, : x.shape[1] // 2]"], 0),
    "floor-in-sum": (
        "floor-div",
        net("return x * («int(x.shape[1] / 2)» + 1)\n"),
        X,
        ["x * ((x.shape[1] // 2) + 1)"],
        0,
    ),
    "floor-size": ("floor-div", net("return x * «int(x.shape[1])»\n"), X, ["x * x.shape[1]"], 0),
    "ceil": ("floor-div", net("return x * «math.ceil(x.shape[1] / 3)»\n", NUMPY), X, ["x * (-(-x.shape[1] // 3))"], 0),
    "convert": (
        "wrap-conversion",
        net("return x * «float(x.std())»\n"),
        X,
        [
            'def _to_float(value):\n    return float(value)\n\n\ntorch.fx.wrap("_to_float")\n\n\nclass Net',
            "x * _to_float(x.std())",
        ],
        0,
    ),
    "round": (
        "wrap-conversion",
        net("return x * «round(x.shape[1] * 0.3)»\n"),
        X,
        ["x * _to_round(x.shape[1] * 0.3)"],
        0,
    ),
    "divmod": (
        "divmod-ops",
        net("q, r = «divmod(x.shape[1], 3)»\nreturn x * q + r\n"),
        X,
        ["q, r = x.shape[1] // 3, x.shape[1] % 3"],
        0,
    ),
    "divmod-index": (
        "divmod-ops",
        net("return x * «divmod(x.shape[1], 3)»[0]\n"),
        X,
        ["(x.shape[1] // 3, x.shape[1] % 3)[0]"],
        0,
    ),
    "look-up": (
        "wrap-index",
        net("scales = [1.0, 2.0, 3.0, 4.0]\nreturn x * «scales[x.shape[0]]»\n"),
        X,
        ["def _look_up(scales, x):\n    return scales[x.shape[0]]", "return x * _look_up(scales, x)"],
        0,
    ),
    "numpy": ("np-to-torch", net("return x + «np.exp(x)»\n", NUMPY), X, ["x + torch.exp(x)"], 0),
    "numpy-axis": (
        "np-to-torch",
        net("return x * «np.cumsum(x, axis=1)»\n", NUMPY),
        X,
        ["x * torch.cumsum(x, dim=1)"],
        0,
    ),
    "numpy-size": (
        "np-to-torch",
        net("return x / «np.sqrt(x.shape[1])»\n", NUMPY),
        X,
        ["x / math.sqrt(x.shape[1])"],
        0,
    ),
    "numpy-scalar": (
        "to-python-number",
        net("return torch.add(x, «np.float32(0.5)»)\n", NUMPY),
        X,
        ["torch.add(x, 0.5)"],
        0,
    ),
    "numpy-constant": (
        "to-python-number",
        net("return torch.mul(x, «np.sqrt(2.0)»)\n", NUMPY),
        X,
        ["torch.mul(x, float(np.sqrt(2.0)))"],
        0,
    ),
    "set-number": (
        "setitem-functional",
        net("y = x * 2\n«y[:, 0]» = 1.0\nreturn y\n"),
        X,
        ["y = y.index_fill(1, torch.tensor([0], device=y.device), 1.0)"],
        0,
    ),
    "set-tensor": (
        "setitem-functional",
        net("y = x * 2\n«y[:, -1]» = x[:, 0]\nreturn y\n"),
        X,
        ["y = torch.select_scatter(y, x[:, 0], 1, -1)"],
        0,
    ),
    "set-augmented": (
        "setitem-functional",
        net("y = x * 2\n«y[..., 0]» += x[:, 1]\nreturn y\n"),
        X,
        ["y = torch.select_scatter(y, y[..., 0] + x[:, 1], -1, 0)"],
        0,
    ),
    "set-slice": (
        "setitem-functional",
        net("y = x * 2\n«y[:, 1:]» = x[:, :-1]\nreturn y\n"),
        X,
        ["y = torch.slice_scatter(y, x[:, :-1], 1, 1)"],
        0,
    ),
    "set-slice-number": (
        "setitem-functional",
        net("y = x * 2\n«y[:, :2]» = 0\nreturn y\n"),
        X,
        ["y = torch.slice_scatter(y, torch.full_like(y[:, :2], 0), 1, None, 2)"],
        0,
    ),
    "set-mask": (
        "setitem-functional",
        net("y = x * 2\n«y[x > 0]» = 0.0\nreturn y\n"),
        X,
        ["y = torch.where(x > 0, 0.0, y)"],
        0,
    ),
    "set-mask-rows": (
        "setitem-functional",
        net("y = x * 2\nrows = x[:, 0] > 0\n«y[rows]» = 0.0\nreturn y\n"),
        X,
        ["y = torch.where((rows).unsqueeze(-1), 0.0, y)"],
        1,
    ),
    "set-wrapped": (
        "setitem-wrapped",
        net("y = x * 2\nrows = x[:, 0] > 0\n«y[rows, 1:]» = x.max()\nreturn y\n"),
        X,
        [
            "def _set_y(y, rows, value):\n    y[rows, 1:] = value\n    return y",
            "        y = _set_y(y, rows, x.max())\n",
        ],
        0,
    ),
    "set-wrapped-augmented": (
        "setitem-wrapped",
        net("y = x * 2\n«y[0]» += 1\nreturn y\n"),
        X,
        ["def _set_y(y):\n    y[0] += 1\n    return y", "        y = _set_y(y)\n"],
        0,
    ),
    "out-of-place": ("out-of-place", net("y = x * 2\n«y.add_(1)»\nreturn y\n"), X, ["        y = y.add(1)\n"], 0),
    "randn": ("randn-like", net("return x + «torch.randn(x.shape)»\n"), X, ["x + torch.randn_like(x)"], 0),
    "randn-star": (
        "randn-like",
        net("return x + «torch.rand(*x.size(), device=x.device)»\n"),
        X,
        ["x + torch.rand_like(x)"],
        0,
    ),
    "draw": (
        "lift-random",
        net("return x + «torch.randn(4)»\n"),
        X,
        ["def _draw_randn(_when):\n    return torch.randn(4)", "x + _draw_randn(x)"],
        0,
    ),
    "seed": (
        "seed-wrapped",
        net("«torch.manual_seed(3)»\nreturn x + torch.rand_like(x)\n"),
        X,
        ["def _manual_seed(value):\n    torch.manual_seed(3)\n    return value", "        x = _manual_seed(x)\n"],
        0,
    ),
    "dropout": (
        "dropout-module",
        net("return «F.dropout(x, 0.5, training=self.training)» * 2\n", NUMPY, init="self.fc = nn.Linear(4, 4)\n"),
        X,
        ["        self.fc = nn.Linear(4, 4)\n        self.dropout = nn.Dropout(0.5)\n", "return self.dropout(x) * 2"],
        0,
    ),
    "dropout-no-init": (
        "dropout-module",
        net("return «nn.functional.dropout(x, 0.5, self.training)»\n"),
        X,
        [
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.dropout = nn.Dropout(0.5)\n\n"
            "    def forward(self, x):\n        return self.dropout(x)\n"
        ],
        0,
    ),
    "module-list": (
        "module-list",
        net(
            "for layer in self.layers:\n    x = «layer(x)»\nreturn x\n",
            init="self.layers = [nn.Linear(4, 4) for _ in range(2)]\n",
        ),
        X,
        ["self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])"],
        0,
    ),
    "module-list-append": (
        "module-list",
        net(
            "for layer in self.layers:\n    x = «layer(x)»\nreturn x\n",
            init="self.layers = []\nfor _ in range(2):\n    self.layers.append(nn.Linear(4, 4))\n",
        ),
        X,
        ["self.layers = nn.ModuleList()\n"],
        0,
    ),
    "module-dict": (
        "module-list",
        net("return «self.heads['a'](x)»\n", init="self.heads = {'a': nn.Linear(4, 4)}\n"),
        X,
        ["self.heads = nn.ModuleDict({'a': nn.Linear(4, 4)})"],
        0,
    ),
    "parameter-list": (
        "parameter-list",
        net("return x * «self.scales[0]»\n", init="self.scales = [nn.Parameter(torch.ones(4))]\n"),
        X,
        ["self.scales = nn.ParameterList([nn.Parameter(torch.ones(4))])"],
        0,
    ),
    "module-in-init": (
        "module-in-init",
        net("return «nn.LeakyReLU(0.2)(x)»\n"),
        X,
        ["self.leakyrelu = nn.LeakyReLU(0.2)", "return self.leakyrelu(x)"],
        0,
    ),
    "device": (
        "device-of-input",
        net(
            "return x * torch.ones((x.shape[0], 4), device=«self.fc.weight.device»)\n",
            init="self.fc = nn.Linear(4, 4)\n",
        ),
        X,
        ["device=x.device)"],
        0,
    ),
    "detach": (
        "detach",
        net("«with torch.no_grad():\n    y = x * 2»\nreturn x + y\n"),
        X,
        ["        y = (x * 2).detach()\n        return x + y\n"],
        0,
    ),
    "lift-if": (
        "lift-block",
        net(
            "y = x * self.scale\nif «y.sum() > self.limit»:  # too large\n    # halve it\n    y = y / 2\n"
            "return y + 1\n",
            init="self.scale = nn.Parameter(torch.ones(4))\nself.limit = 0.5\n",
        ),
        X,
        [
            "def _net_y(y, limit):\n    if y.sum() > limit:  # too large\n        # halve it\n"
            "        y = y / 2\n    return y\n"
            '\n\ntorch.fx.wrap("_net_y")\n\n\nclass Net',
            "        y = _net_y(y, self.limit)\n        return y + 1\n",
        ],
        0,
    ),
    "lift-loop": (
        "lift-block",
        net("total = x[0] * 0\nfor i in range(«x.shape[0]»):\n    total = total + x[i]\nreturn total\n"),
        X,
        ["def _total(x, total):\n    for i in range(x.shape[0]):\n        total = total + x[i]\n    return total"],
        0,
    ),
    "lift-while": (
        "lift-block",
        net("while «x.abs().max() > 1»:\n    x = x / 2\n    if x.sum() == 0:\n        break\nreturn x\n"),
        X,
        ["def _net_x(x):\n    while x.abs().max() > 1:", "        x = _net_x(x)\n"],
        0,
    ),
    "lift-and-rest": (
        "lift-block",
        net("if «x.sum() > 0»:\n    return x + 1\ny = x * 2\nreturn y\n"),
        X,
        [
            "def _net_y(x):\n    if x.sum() > 0:\n        return x + 1\n    y = x * 2\n    return y\n",
            "return _net_y(x)\n",
        ],
        0,
    ),
    "lift-two": (
        "lift-block",
        net("if «x.sum() > 0»:\n    a, b = x, x + 1\nelse:\n    a, b = x * 3, x\nreturn a - b\n"),
        X,
        ["    return a, b\n", "a, b = _net_a_b(x)\n"],
        0,
    ),
    "lift-with-text": (
        "lift-block",
        net('if «x.sum() > 0»:\n    t = """a\n  b"""\n    y = x * len(t)\nelse:\n    y = x\nreturn y\n'),
        X,
        ['        t = """a\n          b"""\n'],
        0,
    ),
    "lift-expression": (
        "lift-expression",
        net("return x * «torch.tensor([x.shape[0], 1, 2, 3])»\n"),
        X,
        ["def _tensor_x(x):\n    return torch.tensor([x.shape[0], 1, 2, 3])", "return x * _tensor_x(x)"],
        0,
    ),
    "lift-expression-self": (
        "lift-expression",
        net("return x * «float(x.shape[0] in self.ok)»\n", init="self.ok = (1, 3)\n"),
        X,
        ["def _to_float_x(x, ok):\n    return float(x.shape[0] in ok)", "return x * _to_float_x(x, self.ok)"],
        0,
    ),
}


def run(text: str, inputs: tuple, training: bool = False):
    """Execute a file, build its Net under a fixed seed, and call it on copies of the inputs."""
    name = "fixed_net"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, "net.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    model = module.Net().train(training)
    torch.manual_seed(1)
    with torch.no_grad():
        return model, model(*(x.clone() for x in inputs))


def trace(model: nn.Module):
    traced = torch.fx.symbolic_trace(model)
    torch.manual_seed(1)
    return traced


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c[4] is not None])
def test_recipe(name):
    recipe, text, inputs, wanted, place = CASES[name]
    fixes, files = fixes_of(recipe, text)
    assert fixes, "the recipe declined"
    after = applied(fixes[place], files)["net.py"]
    for part in wanted:
        assert part in after, after
    for training in (False, True):
        _, before_value = run(files["net.py"], inputs, training)
        model, after_value = run(after, inputs, training)
        torch.testing.assert_close(after_value, before_value)
        traced = trace(model)
        with torch.no_grad():
            torch.testing.assert_close(traced(*(x.clone() for x in inputs)), after_value)


# recipe, source: what must be declined, and why
DECLINED = {
    "where on a shape": ("if-to-where", net("if «x.shape[0] == 1»:\n    x = x * 2\nreturn x\n")),
    "where on training": ("if-to-where", net("if self.training and «x.sum() > 0»:\n    x = x * 2\nreturn x\n")),
    "where with a call in a branch": ("if-to-where", net("if «x.sum() > 0»:\n    print(1)\n    x = x * 2\nreturn x\n")),
    "where reads what it binds": (
        "if-to-where",
        net("a = b = x\nif «x.sum() > 0»:\n    a = x * 2\n    b = a + 1\nreturn a + b\n"),
    ),
    "lift over return": (
        "lift-block",
        net("for i in range(3):\n    if «x.sum() > i»:\n        return x\nreturn self.fc(x)\n"),
    ),
    "lift over break": (
        "lift-block",
        net("for m in self.ms:\n    x = m(x)\n    if «x.sum() > 0»:\n        break\n", init="self.ms = []\n"),
    ),
    "lift over yield": ("lift-block", net("if «x.sum() > 0»:\n    x = yield x\nreturn x\n")),
    "lift hides a submodule": (
        "lift-block",
        net("if «x.sum() > 0»:\n    x = self.fc(x)\nreturn x.tanh()\n", init="self.fc = nn.Linear(4, 4)\n"),
    ),
    "lift of an attribute write": (
        "lift-block",
        net("if «x.sum() > 0»:\n    self.seen = True\n    x = x + 1\nreturn x\n"),
    ),
    "lift of a maybe unbound name": (
        "lift-block",
        net("if «x.sum() > 0»:\n    y = x\nif x.sum() > 0:\n    x = y + 1\nreturn x\n"),
    ),
    "lift of a global": ("lift-block", net("global G\nif «x.sum() > 0»:\n    global H\n    x = x * 2\nreturn x\n")),
    "lift whose result is unused": ("lift-block", net("if «x.sum() > 0»:\n    y = x\nself.n()\nreturn x\n")),
    "unpack of a call": ("unpack-index", net("a, *b = «f(x)»\nreturn a\n")),
    "list of zip": ("drop-list", net("return list(«zip(x, x)»)\n")),
    "setitem of an attribute": ("setitem-wrapped", net("«self.buf[0]» = x\nreturn x\n")),
    "dropout always on": ("dropout-module", net("return «nn.functional.dropout(x, 0.5, training=True)»\n")),
    "dropout with a local p": (
        "dropout-module",
        net("p = 0.5\nreturn «nn.functional.dropout(x, p, training=self.training)»\n"),
    ),
    "unknown numpy function": ("np-to-torch", net("return «np.linalg.svd(x)»\n", NUMPY)),
    "seed of an argument": ("seed-wrapped", net("«torch.manual_seed(n)»\nreturn x\n", signature="self, x, n")),
    "draw with a traced size": ("lift-random", net("return «torch.randn(x.shape[0])»\n")),
}

# Where eager refuses, or gives another type than the fixed text: the text alone. recipe, source, part of the result
TEXTS = {
    "set": ("list-of-generator", net("return torch.sum(x, dim=«{0}»)\n"), "torch.sum(x, dim=(0,))"),
    "generator": ("list-of-generator", net("return torch.stack(«(r for r in y)»)\n"), "torch.stack([r for r in y])"),
    "flip": ("flip", net("return torch.stack(list(«reversed(x)»))\n"), "torch.stack(torch.flip(x, (0,)))"),
    "check": (
        "torch-assert",
        net("«torch._check(x.shape[0] > 0)»\n"),
        'torch._assert(x.shape[0] > 0, "x.shape[0] > 0")',
    ),
    "data": ("copy-in-place", net("«y.data» = y + 1\n"), "y.copy_(y + 1)"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    recipe, text, part = TEXTS[name]
    fixes, files = fixes_of(recipe, text)
    assert part in applied(fixes[0], files)["net.py"]


@pytest.mark.parametrize("name", DECLINED)
def test_declined(name):
    recipe, text = DECLINED[name]
    assert fixes_of(recipe, text)[0] == []


def test_head_is_real():
    assert "torch.fx" in HEAD
