"""Fixes of control flow by values: torch.where and its like, assertions, code that is moved into a wrapped function."""

from __future__ import annotations

import torch

from .marked import HEAD, net

X = (torch.linspace(-2, 3, 12).reshape(3, 4),)

# recipe, source with the marked place, inputs, texts that the fixed file holds, place among the drafts
CONTROL = {
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
    "where-names-beyond-ascii": (  # whose first letter of several bytes follows the word
        "if-to-where",
        net("変 = x * 2\nif «変.sum() > 0»:\n    変 = 変 + 1\nelif 変.mean() > 3:\n    変 = 変 - 1\nreturn 変\n"),
        X,
        ["変 = torch.where(変.sum() > 0, 変 + 1, torch.where(変.mean() > 3, 変 - 1, 変))\n"],
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
    "lift-expression-nested-class": (
        "lift-expression",
        HEAD
        + "\n\nclass Net(nn.Module):\n"
        + "    class Double(torch.autograd.Function):\n"
        + "        @staticmethod\n        def forward(ctx, x):\n            return x * 2\n\n"
        + "        @staticmethod\n        def backward(ctx, grad):\n            return grad * 2\n\n"
        + "    def forward(self, x):\n        return «self.Double.apply(x)»\n",
        X,
        ["def _apply_double(x):\n    return Net.Double.apply(x)", "return _apply_double(x)"],
        0,
    ),
    "instance-forward": (
        "instance-forward",
        HEAD + "\n\nclass Net(nn.Module):\n    @staticmethod\n    «def forward(x):\n        return x * 2»\n",
        X,
        ["class Net(nn.Module):\n    def forward(self, x):\n"],
        0,
    ),
    "instance-forward-of-a-class": (
        "instance-forward",
        HEAD + "\n\nclass Net(nn.Module):\n    @classmethod\n    «def forward(cls, x):\n        return x * 2»\n",
        X,
        ["class Net(nn.Module):\n    def forward(cls, x):\n"],
        0,
    ),
    "wrap-distribution": (
        "wrap-distribution",
        HEAD + "\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        policy = «torch.distributions.Normal(x, scale=x.exp(), validate_args=False)»\n"
        "        return policy.log_prob(x)\n",
        X,
        [
            "def _normal(loc, scale):\n    return torch.distributions.Normal(loc, scale=scale, validate_args=False)\n",
            "policy = _normal(x, x.exp())",
        ],
        0,
    ),
    "wrap-distribution-of-a-class-of-the-file": (
        "wrap-distribution",
        HEAD + "\n\nclass FixedNormal(torch.distributions.Normal):\n    def mode(self):\n        return self.mean\n\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return «FixedNormal(x, 1.0)».mode()\n",
        X,
        ["def _fixed_normal(loc):\n    return FixedNormal(loc, 1.0)\n", "return _fixed_normal(x).mode()"],
        0,
    ),
    "lift-packing": (
        "lift-packing",
        HEAD + "from torch.nn.utils.rnn import pack_padded_sequence\n\n\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.lengths = torch.tensor([1, 1, 1])\n"
        "        self.rnn = nn.GRU(4, 4, batch_first=True)\n\n    def forward(self, x):\n"
        "        packed = «pack_padded_sequence(x.unsqueeze(1), self.lengths, batch_first=True)»\n"
        "        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]\n",
        X,
        [
            "    return pack_padded_sequence(input, lengths, batch_first=True)\n",
            "packed = _pack_padded_sequence(x.unsqueeze(1), self.lengths)",
            "return _pad_packed_sequence(self.rnn(packed)[0])[0]",
        ],
        0,
    ),
}
